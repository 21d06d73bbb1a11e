"""``resift eval``: how well a system ranks documents or judges sentences, in files of your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache, wraps
from typing import TYPE_CHECKING, Any

import click

from resift.cli.options import shares_of
from resift.errors import BadInput
from resift.vectors.packaged import DEFAULT

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from resift.evaluation.data import Collection
    from resift.evaluation.systems import System
    from resift.vectors.table import WordVectors

Command = Callable[..., Any]
CLASSES = ("map11", "p@10", "p@20", "p@50", "ip@20", "ip@50")
STS = ("spearman", "pearson", "spearman_all", "pearson_all")
RETRIEVAL = ("ndcg@10", "map", "recall@1", "recall@3", "recall@5", "recall@10", "recall@100", "mrr@10")


@click.group("eval")
def evaluate() -> None:
    """Measure encoders and baselines on labelled documents, sentence pairs or a retrieval collection.

    An encoder is mean, boew:K[,SIGMA], sfbow …; a baseline is tfidf, tfidf-stop, bm25, lsi:K, pv-dbow:K, mean-plain,
    dynamax, sif, model2vec, adapted, late or st:FOLDER (a sentence-transformers model). All figures are fractions or
    correlations, with bootstrap 95 % intervals; p is of a paired randomisation test.
    """


@dataclass(frozen=True)
class SystemChoice:
    """The systems that the command line names, and how the result is told."""

    encoder: str | None
    vectors: str
    model: str | None
    similarity: str | None
    seed: int
    compare: str | None
    as_json: bool

    @property
    def name(self) -> str:
        """The first system's name."""
        if self.model and self.encoder:
            raise BadInput(
                "--model and --encoder", value=[self.model, self.encoder], expected="one of them: a model has its own"
            )
        return self.model or self.encoder or "mean"

    def system(self) -> System:
        """The first system."""
        from resift.evaluation.systems import build_system, load_system

        if self.model:
            return load_system(self.model, self.similarity)
        return build_system(self.name, self.vectors, self.seed, self.similarity)

    def other(self) -> System:
        """The system of --compare."""
        from resift.evaluation.systems import build_system

        return build_system(self.compare or "", self.vectors, self.seed)

    def tell(self, report: dict[str, Any], metrics: Sequence[str], summary: str) -> None:
        """Print the report."""
        from resift.evaluation.report import as_json, as_table

        if self.as_json:
            click.echo(as_json(report))
        else:
            click.echo(f"{summary}\n\n{as_table(report, metrics)}")


def system_options(command: Command) -> Command:
    """The options of :class:`Choice`, given to the command as ``choice``."""

    @wraps(command)
    def gathered(
        *arguments: Any,
        encoder: str | None,
        vectors: str,
        model: str | None,
        similarity: str | None,
        seed: int,
        compare: str | None,
        as_json: bool,
        **rest: Any,
    ) -> Any:
        choice = SystemChoice(encoder, vectors, model, similarity, seed, compare, as_json)
        return command(*arguments, choice=choice, **rest)

    wrapped: Command = gathered
    for option in (
        click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table."),
        click.option("--compare", metavar="NAME|DIR", help="A second encoder or model: differences and their p."),
        click.option("--seed", default=0, show_default=True, help="Of what is learnt, and of intervals and tests."),
        click.option(
            "--similarity", metavar="NAME", help="cosine, jaccard or, for pairs, dynamax. [the encoder's own]"
        ),
        click.option("--model", metavar="DIR", help="A saved model's folder, in place of --encoder and --vectors."),
        click.option("--vectors", default=DEFAULT, show_default=True, metavar="DIR", help="Word vectors' folder."),
        click.option("--encoder", metavar="NAME", help="An encoder or baseline. [mean]"),
    ):
        wrapped = option(wrapped)
    return wrapped


@evaluate.command("classes")
@click.option("--train", required=True, metavar="FILE", help="The database: JSON lines {id, text, label}, plain or gz.")
@click.option("--test", required=True, metavar="FILE", help="The queries, in the same form.")
@system_options
def classes(train: str, test: str, choice: SystemChoice) -> None:
    """Same-class retrieval: each test document searches the training documents; those of its label are relevant.

    map11 is the 11-point interpolated mean average precision, p@K the precision among the first K, ip@K the largest
    precision at K or any later rank (what Passalis and Tefas 2018 print as top-K precision).
    """
    from resift.evaluation.data import read_classes
    from resift.evaluation.protocol import run_classes
    from resift.evaluation.report import of_run

    name, database, queries = choice.name, read_classes(train), read_classes(test)
    run = run_classes(choice.system(), database, queries)
    other = run_classes(choice.other(), database, queries) if choice.compare else None
    report = {"task": "classes", **of_run(run, name, choice.seed, other, choice.compare or "")}
    summary = f"{report['queries']} queries, {report['documents']} documents, {report['classes']} classes"
    choice.tell(report, CLASSES, summary + _skipped(report, "of a label that no training document has"))


@evaluate.command("sts")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@system_options
def sts(files: tuple[str, ...], choice: SystemChoice) -> None:
    """Sentence pairs: correlation with gold scores, averaged over tasks weighted by their pairs.

    FILE: tab-separated, no quoting, with a header line: task, score, sentence1, sentence2; plain or gz.
    """
    from resift.evaluation.data import read_pairs
    from resift.evaluation.report import of_sts
    from resift.evaluation.sts import run_sts

    name, read = choice.name, [read_pairs(file) for file in files]
    tasks = run_sts(choice.system(), read)
    other = run_sts(choice.other(), read) if choice.compare else None
    report = {"task": "sts", **of_sts(tasks, name, choice.seed, other, choice.compare or "")}
    choice.tell(report, STS, f"{report['pairs']} pairs, {len(report['tasks'])} tasks")


@evaluate.command("retrieval")
@click.argument("folder", metavar="DIR")
@click.option("--hybrid", is_flag=True, help="Mix with BM25, both z-scored.")
@click.option(
    "--alpha",
    type=click.FloatRange(0, 1),
    help="The encoder's part in --hybrid; BM25 has the rest. [a trained reranker's own, else 0.3]",
)
@click.option("--part", metavar="NAME", help="Judgements of qrels/NAME.tsv: train, dev, test. [qrels.tsv, else test]")
@click.option(
    "--split",
    "shares",
    callback=shares_of,
    metavar="A,B,C",
    help='Only the last block of queries, as "resift train reranker" cuts them.',
)
@system_options
def retrieval(
    folder: str,
    hybrid: bool,
    alpha: float | None,
    part: str | None,
    shares: tuple[float, ...] | None,
    choice: SystemChoice,
) -> None:
    """Rank a BEIR folder's documents for its queries: corpus.jsonl, queries.jsonl, qrels.tsv; plain or gz.

    Queries that the model was trained on are left out and counted (trained_on); where it was trained on all of them,
    they are kept, with a warning.

    With --hybrid, --json gives the figures of BM25 and of the encoder alone under "alone". --compare is by itself,
    not mixed: "--hybrid --compare bm25" tells what the encoder adds.
    """
    from resift.evaluation.data import block_split, read_collection, with_queries
    from resift.evaluation.protocol import run_hybrid, run_retrieval
    from resift.evaluation.report import of_run

    name, collection, alone = choice.name, read_collection(folder, part), {}
    if shares is not None:
        collection = with_queries(collection, block_split(collection, shares).test.tolist())
    system = choice.system()
    asked = len(collection.queries)
    collection, trained_on = _unseen(system, collection)
    if hybrid:
        run, bm25, vectors = run_hybrid(system, collection, alpha)
        alone, name = {"bm25": bm25.means(), name: vectors.means()}, f"{name} + bm25"
    else:
        run = run_retrieval(system, collection)
    other = run_retrieval(choice.other(), collection) if choice.compare else None
    report = {"task": "retrieval", **of_run(run, name, choice.seed, other, choice.compare or "")}
    if hybrid:
        report["alone"] = alone
    if trained_on:
        report["trained_on"] = trained_on
    summary = f"{report['queries']} queries, {report['documents']} documents"
    if len(collection.queries) < asked:
        summary += f"; {trained_on} queries that the model was trained on left out"
    choice.tell(report, RETRIEVAL, summary + _skipped(report, "without a relevant document"))


def _unseen(system: System, collection: Collection) -> tuple[Collection, int]:
    """The collection without the queries that the system was trained on, and how many these are."""
    from resift.evaluation.data import with_queries
    from resift.ranking.late_interaction import fingerprints

    seen = set(getattr(system, "seen", ()))
    new = [place for place, mark in enumerate(fingerprints(collection.queries)) if mark not in seen]
    count = len(collection.queries) - len(new)
    if count and not new:
        click.echo("warning: the model was trained on all of these queries; new ones will fare worse", err=True)
        return collection, count
    return with_queries(collection, new) if count else collection, count


def _skipped(report: dict[str, Any], why: str) -> str:
    return f"; {report['skipped']} queries {why} left out" if report["skipped"] else ""


@evaluate.command("feedback")
@click.argument("folder", required=False, metavar="[DIR]")
@click.option("--train", metavar="FILE", help="Labelled documents: the database, instead of DIR.")
@click.option("--test", metavar="FILE", help="Labelled documents: the queries.")
@click.option("--method", "methods", multiple=True, metavar="NAME", help="May be repeated. [ridge+lexical]")
@click.option("--queries", default=300, show_default=True, help="Queries drawn.")
@click.option("--judgements", default=10, show_default=True, help="Documents judged a round.")
@click.option("--rounds", default=1, show_default=True, help="Times that the ranking is judged and made anew.")
@click.option("--noise", default=0.0, show_default=True, help="The chance that a mark is wrong.")
@click.option("--alpha", default=0.3, show_default=True, help="Of similarity against BM25, before any feedback.")
@click.option(
    "--first",
    metavar="NAME",
    help="With --train: the encoder of the first ranking. [boew:64 if the encoder is adapted, else the same]",
)
@click.option("--topics", is_flag=True, help="Two-topic sessions instead: a query, judged, and then another one.")
@click.option("--baselines/--no-baselines", default=True, show_default=True, help="With their figures.")
@system_options
def feedback(
    folder: str | None,
    train: str | None,
    test: str | None,
    methods: tuple[str, ...],
    alpha: float,
    first: str | None,
    topics: bool,
    baselines: bool,
    choice: SystemChoice,
    **settings: Any,
) -> None:
    """Relevance feedback by a simulated user, in labelled documents or a BEIR folder.

    Without --encoder or --model the vectors are adapted to the documents, as "resift index --adapt" does.

    Labelled documents (--train, --test): half relevant, half irrelevant ones of the first 30 are judged (Passalis and
    Tefas 2018, Table 5). DIR: the first ten of the mix with BM25 are. All figures of DIR and those named residual are
    of the ranking without the judged documents.

    Methods: mask, rocchio, mask+rocchio, ridge, lexical, ridge+lexical, whitened; baselines: none, rocchio, rm3,
    more_like_this. --compare is not used here: the ranking before is compared.
    """
    from resift.evaluation import feedback as fb
    from resift.evaluation.data import read_classes, read_collection
    from resift.evaluation.report import as_json, carry_table, of_carry, of_feedback
    from resift.ranking.feedback import DEFAULT_METHOD
    from resift.vectors.packaged import load_vectors

    if choice.compare:
        raise BadInput("--compare", value=choice.compare, expected="--method: methods are compared, not encoders")
    if not (choice.encoder or choice.model):
        choice = replace(choice, encoder="adapted")
    options = fb.FeedbackOptions(seed=choice.seed, **settings)
    chosen = methods or (DEFAULT_METHOD,)
    if folder and not (train or test or first):
        collection = read_collection(folder)
        documents, queries = collection.documents, collection.queries
        task: fb.FeedbackProtocol = fb.Graded(collection)
    elif train and test and not folder:
        database = read_classes(train)
        documents = database.texts
        task = fb.SameClass(database, read_classes(test))
        queries = task.texts
    else:
        raise BadInput(
            "nothing, or two things, to measure on", expected="DIR | --train FILE --test FILE [--first NAME]"
        )
    system = choice.system()
    if train and choice.encoder == "adapted":
        first = first or f"boew:{min(64, len(load_vectors(choice.vectors)))}"
    bench = fb.Bench(system, documents, queries, _idf(system), alpha)
    if note := getattr(system, "note", ""):
        click.echo(f"warning: {note}; the vectors are not adapted", err=True)
    if isinstance(task, fb.SameClass) and first:
        task.begin(_ranking(first, choice, documents, queries))
    given = {name: value for name, value in vars(options).items() if name != "queries"}
    sizes = {"documents": len(documents), "encoder": choice.name, "alpha": alpha, **given}
    if topics:
        carried = {"task": "feedback", "protocol": "topics", **of_carry(fb.run_carry(bench, task, options)), **sizes}
        click.echo(as_json(carried) if choice.as_json else carry_table(carried, task.names))
        return
    others = [name for name in (*chosen[1:], *(fb.BASELINES if baselines else ())) if name != chosen[0]]
    found = fb.run_feedback(bench, task, options, tuple(dict.fromkeys((chosen[0], *others))))
    report = of_feedback(
        found[chosen[0]], chosen[0], choice.seed, {name: found[name] for name in dict.fromkeys(others)}
    )
    report = {"task": "feedback", "protocol": "classes" if train else "retrieval", **report, **sizes}
    choice.tell(report, task.names, f"{report['queries']} queries, {len(documents)} documents")


def _idf(system: System) -> Callable[[str], float]:
    """How rare words are by the encoder's own table, once it is fitted, or by the packaged vectors if it has none."""
    from resift.vectors.packaged import load_vectors

    @cache
    def table() -> WordVectors:
        found = getattr(system, "table", None)
        return load_vectors() if found is None else found

    return lambda word: table().zipf_idf(word)


def _ranking(
    name: str, choice: SystemChoice, documents: Sequence[str], queries: Sequence[str]
) -> Callable[[int], NDArray[Any]]:
    """Similarities of the documents with a query, by an untrained encoder, a baseline or a saved model."""
    from resift.evaluation.pairwise import similarity_blocks
    from resift.evaluation.systems import build_system

    system = build_system(name, choice.vectors, choice.seed)
    database, asked = system.fit(documents), system.queries(queries)
    return lambda query: next(similarity_blocks(asked[query : query + 1], database, system.similarity))[1][0]
