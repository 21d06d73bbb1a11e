"""Mutants without an observable effect, which no test can notice: (module, changed line) → the reason."""

CACHE = "maximum age of a cache; the exact number of seconds is not specified"
SIZE = "size of a cache or a batch, which only affects speed"
NO_ZERO = "judgements of grade 0 only withdraw other judgements, and are never learned from"
CHOSEN = "a chosen constant; a similar value would do as well"
EQUIVALENT = {
    (
        "resift/vectors/similarity.py",
        "shared, total = np.minimum(a, b).sum((1)), np.maximum(a, b).sum(-1)",
    ): "documents are rows of a matrix: its last axis is 1",
    (
        "resift/vectors/similarity.py",
        "shared, total = np.minimum(a, b).sum(-1), np.maximum(a, b).sum((1))",
    ): "documents are rows of a matrix: its last axis is 1",
    (
        "resift/feedback/feedback.py",
        "relevant = [document.vector for document in ordered if (document.judgement.grade >= 0)]",
    ): NO_ZERO,
    (
        "resift/feedback/feedback.py",
        "irrelevant = [document.vector for document in ordered if (document.judgement.grade <= 0)]",
    ): NO_ZERO,
    (
        "resift/feedback/feedback.py",
        "positions = sorted(range(len(judged)), key=lambda position: (judged[position].judgement.grade <= 0))",
    ): NO_ZERO,
    (
        "resift/feedback/feedback.py",
        "np.array(relevant, np.float32).reshape(-2, dim),",
    ): "any negative number stands for the number of rows",
    (
        "resift/feedback/feedback.py",
        "np.array(irrelevant, np.float32).reshape(-2, dim),",
    ): "any negative number stands for the number of rows",
    (
        "resift/feedback/feedback.py",
        "idf: Callable[[str], float] = lambda word: 2.0,",
    ): "bags of words have length 1, so a constant factor does not matter",
    (
        "resift/feedback/ridge.py",
        "residuals: NDArray[np.float64] = ((self.grades >= 0)) - self.vectors @ prior",
    ): NO_ZERO,
    (
        "resift/feedback/expansion.py",
        "side = [(abs(grade), bag) for grade, bag in zip(grades.tolist(), bags, strict=False) if (grade / sign) > 0]",
    ): "the sign is 1 or -1",
    ("resift/ingest/indexing.py", "batch, texts, size = [], [], 1"): "batches end at about so many characters",
    ("resift/ingest/indexing.py", "batch, texts, size = [], [], -1"): "batches end at about so many characters",
    (
        "resift/sessions/sessions.py",
        "_PURGE_SECONDS = 61.0  # interval of purging expired sessions",
    ): "about once a minute; nothing promises it to the second",
    (
        "resift/sessions/sessions.py",
        "_PURGE_SECONDS = 59.0  # interval of purging expired sessions",
    ): "about once a minute; nothing promises it to the second",
    (
        "resift/vectors/similarity.py",
        "squares = np.matmul(dense[:, None], dense[:, :, None])[:, -1, 0]  # faster than einsum",
    ): "each product has one row and one column",
    (
        "resift/vectors/similarity.py",
        "squares = np.matmul(dense[:, None], dense[:, :, None])[:, 0, -1]  # faster than einsum",
    ): "each product has one row and one column",
    (
        "resift/sessions/knowledge.py",
        "self._learned: TtlCache[Feedback] = (TtlCache(_SECONDS, _LEARNED_BYTES))",
    ): "what is kept for speed alone; keys hold all that it depends on",
    (
        "resift/sessions/sessions.py",
        "if (expires - session.expires >= self.seconds / 100):",
    ): "about a hundredth of the time; nothing promises it exactly",
    (
        "resift/sessions/sessions.py",
        "if expires - session.expires > self.seconds / 101:",
    ): "about a hundredth of the time; nothing promises it exactly",
    (
        "resift/sessions/sessions.py",
        "if expires - session.expires > self.seconds / 99:",
    ): "about a hundredth of the time; nothing promises it exactly",
    (
        "resift/sessions/sessions.py",
        "time.sleep((random.uniform(min(_MAX_WAIT, _WAIT * 2 ** attempt), 0)))",
    ): "any number between the two, whichever is named first",
    (
        "resift/sessions/sessions.py",
        "if (now - self._purged >= _PURGE_SECONDS):",
    ): "about once a minute; nothing promises it to the second",
    (
        "resift/sessions/sessions.py",
        "indices[index], document, grade, body.q[query], round(body.at + at / 1000, 4), step, SOURCES[source]",
    ): "both have three decimals: rounding only takes away what floats add",
    (
        "resift/ingest/indexing.py",
        "BATCH = 501  # maximum number of documents in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    (
        "resift/ingest/indexing.py",
        "BATCH = 499  # maximum number of documents in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    (
        "resift/ingest/indexing.py",
        "BATCH_CHARACTERS = 5 * 2**20  # approximate maximum number of characters in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    (
        "resift/ingest/indexing.py",
        "BATCH_CHARACTERS = 3 * 2**20  # approximate maximum number of characters in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    (
        "resift/ingest/indexing.py",
        "BATCH_CHARACTERS = 4 * 3**20  # approximate maximum number of characters in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    (
        "resift/ingest/indexing.py",
        "BATCH_CHARACTERS = 4 * 1**20  # approximate maximum number of characters in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    (
        "resift/ingest/indexing.py",
        "BATCH_CHARACTERS = 4 * 2**21  # approximate maximum number of characters in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    (
        "resift/ingest/indexing.py",
        "BATCH_CHARACTERS = 4 * 2**19  # approximate maximum number of characters in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    (
        "resift/ingest/indexing.py",
        "BATCH_CHARACTERS = 4 * (2 * 20)  # approximate maximum number of characters in a bulk request",
    ): "how much is sent at a time, not what is indexed",
    ("resift/ingest/indexing.py", "size = 1"): "batches end at about so many characters",
    ("resift/ingest/indexing.py", "size = -1"): "batches end at about so many characters",
    (
        "resift/ingest/indexing.py",
        "if len(batch) == BATCH or (size > BATCH_CHARACTERS):",
    ): "batches end at about so many characters",
    (
        "resift/encoders/model.py",
        "_SCORED_ROWS = 511  # rows scored at a time, so that intermediate results stay in the processor's caches",
    ): "the number of rows that are scored at a time does not change the scores",
    (
        "resift/encoders/model.py",
        "_SCORED_ROWS = 513  # rows scored at a time, so that intermediate results stay in the processor's caches",
    ): "the number of rows that are scored at a time does not change the scores",
    (
        "resift/encoders/model.py",
        "_MAX_SHORT_TEXT = 20001  # characters of a text whose rows are gathered at once",
    ): "it limits the memory and does not change the vectors",
    (
        "resift/encoders/model.py",
        "_MAX_SHORT_TEXT = 19999  # characters of a text whose rows are gathered at once",
    ): "it limits the memory and does not change the vectors",
    (
        "resift/encoders/model.py",
        "if not self._can_encode_short or not isinstance(text, str) or (len(text) >= _MAX_SHORT_TEXT):",
    ): "it limits the memory and does not change the vectors",
    (
        "resift/encoders/model.py",
        "pass  # matrix.flags.writeable = False",
    ): "it guards against programming errors; nothing writes to the matrix",
    (
        "resift/encoders/model.py",
        "matrix.flags.writeable = True",
    ): "it guards against programming errors; nothing writes to the matrix",
    (
        "resift/encoders/model.py",
        "if self.segments == 0:",
    ): "the general code path gives the same offsets for a single segment",
    (
        "resift/embedded/scoring.py",
        "return np.asarray(np.maximum(1 + cosines, -1))",
    ): "a cosine is not below -1, but for the last bit",
    (
        "resift/embedded/clauses.py",
        "return rows if within is None else (np.intersect1d(within, rows, assume_unique=True))",
    ): "what both hold, whichever is named first",
    (
        "resift/embedded/tables.py",
        "tables = IndexTables(index, int(row.lastrowid or -1), meta, 0)",
    ): "a row that was inserted has a number",
    (
        "resift/embedded/tables.py",
        "tables = IndexTables(index, int(row.lastrowid or 0), meta, -1)",
    ): "nothing asks tables that are just being made how often they changed",
    ("resift/plugin/opensearch/engine.py", "writers = 4"): "a number that was chosen for speed",
    ("resift/plugin/opensearch/engine.py", "writers = 2"): "a number that was chosen for speed",
    (
        "resift/plugin/opensearch/documents.py",
        'if vector_field and vector_field not in named and body.get("size") != -1 and is_valid:',
    ): "where there are no hits their fields are asked for in vain",
    ("resift/plugin/opensearch/client.py", "_PAGE_SIZE = 499  # documents per scroll page"): SIZE,
    ("resift/plugin/opensearch/client.py", "_PAGE_SIZE = 501  # documents per scroll page"): SIZE,
    ("resift/plugin/opensearch/engine.py", "_SAMPLE_SEED = 6"): "any seed will do",
    ("resift/plugin/opensearch/engine.py", "_SAMPLE_SEED = 8"): "any seed will do",
    ("resift/plugin/opensearch/sessions.py", "write_id = secrets.token_hex(3)"): "names that are never used twice",
    ("resift/plugin/opensearch/sessions.py", "write_id = secrets.token_hex(5)"): "names that are never used twice",
    ("resift/plugin/opensearch/sessions.py", '"number_of_shards": 2,'): CHOSEN,
    ("resift/plugin/opensearch/sessions.py", "_DELETE_ATTEMPTS = 19"): "many, whatever the number",
    ("resift/plugin/opensearch/sessions.py", "_DELETE_ATTEMPTS = 21"): "many, whatever the number",
    ("resift/sessions/knowledge.py", "_SECONDS = 299.0"): CACHE,
    ("resift/sessions/knowledge.py", "_SECONDS = 301.0"): CACHE,
    ("resift/sessions/knowledge.py", "_CACHE_BYTES = 16000001"): SIZE,
    ("resift/sessions/knowledge.py", "_CACHE_BYTES = 15999999"): SIZE,
    ("resift/service/index_infos.py", "_INFO_SECONDS = 6.0"): CACHE,
    ("resift/service/index_infos.py", "_INFO_SECONDS = 4.0"): CACHE,
    ("resift/service/index_infos.py", "_CACHED_INFOS = 1001"): SIZE,
    ("resift/service/index_infos.py", "_CACHED_INFOS = 999"): SIZE,
    ("resift/service/rewriter.py", "_SESSIONS_BYTES = 4000001"): SIZE,
    ("resift/service/rewriter.py", "_SESSIONS_BYTES = 3999999"): SIZE,
    ("resift/service/rewriter.py", "_INDICES_BYTES = 2000001"): SIZE,
    ("resift/service/rewriter.py", "_INDICES_BYTES = 1999999"): SIZE,
    ("resift/service/rewriter.py", "_ENTRY_BYTES = 601"): SIZE,
    ("resift/service/rewriter.py", "_ENTRY_BYTES = 599"): SIZE,
    ("resift/sessions/samples.py", "_SECONDS = 601.0  # lifetime of samples and counts in the cache"): CACHE,
    ("resift/sessions/samples.py", "_SECONDS = 599.0  # lifetime of samples and counts in the cache"): CACHE,
    ("resift/sessions/samples.py", "_CACHED_SAMPLES = 65"): SIZE,
    ("resift/sessions/samples.py", "_CACHED_SAMPLES = 63"): SIZE,
    (
        "resift/service/words.py",
        "is_usual_length = (_MIN_WORD_LENGTH <= len(word) < _MAX_WORD_LENGTH)",
    ): "words of about so many letters are none; nothing promises how many",
    (
        "resift/sessions/knowledge.py",
        "lambda learned: 4 * learned.vectors.nbytes + _WORD_BYTES * sum(map(len, learned.bags)),",
    ): SIZE,
    (
        "resift/sessions/knowledge.py",
        "lambda learned: 2 * learned.vectors.nbytes + _WORD_BYTES * sum(map(len, learned.bags)),",
    ): SIZE,
    (
        "resift/service/runner.py",
        "may_concern_rewriting = error.status >= 499 or (is_rewritten and error.status == 400)",
    ): "no error of ours has the status 499",
    (
        "resift/service/runner.py",
        "if isinstance(facet_error, ResiftError) and facet_error.status < 499:",
    ): "no error of ours has the status 499",
    (
        "resift/service/runner.py",
        'return {**ranking, "from": 0, "size": size, "_source": True, "track_total_hits": False}',
    ): "only the ids of these hits are read",
    (
        "resift/service/runner.py",
        'return {**ranking, "from": 0, "size": size, "_source": False, "track_total_hits": True}',
    ): "only the ids of these hits are read",
    ("resift/plugin/opensearch/sessions.py", "_TIMEOUT = 4.0  # seconds"): CHOSEN,
    ("resift/plugin/opensearch/sessions.py", "_TIMEOUT = 6.0  # seconds"): CHOSEN,
    ("resift/service/bodies.py", "value = body.get(name, 1)"): "any whole number stands for none",
    ("resift/rewriting/similarity.py", "_KNN_BOOST = 0.0"): CHOSEN,
    ("resift/rewriting/similarity.py", "_KNN_BOOST = 2.0"): CHOSEN,
    ("resift/rewriting/clauses.py", "NOT_DEMOTED_FACTOR = 999.0"): CHOSEN,
    ("resift/rewriting/clauses.py", "NOT_DEMOTED_FACTOR = 1001.0"): CHOSEN,
    ("resift/rewriting/rescored.py", "WIDENING_WORDS = 6"): CHOSEN,
    ("resift/rewriting/rescored.py", "WIDENING_WORDS = 4"): CHOSEN,
    (
        "resift/rewriting/rescored.py",
        "constant_score(self._document_clauses([document])[-1], rank_keeping_factor(knowledge, document, beta))",
    ): "a single document has a single clause",
    (
        "resift/rewriting/words.py",
        "digits = 5 - math.floor(math.log10(factor)) if 0 < factor < 0.1 else 4",
    ): "a further digit of a weight",
    (
        "resift/rewriting/words.py",
        "digits = 4 - math.floor(math.log10(factor)) if 0 < factor < 0.1 else 5",
    ): "a further digit of a weight",
}
