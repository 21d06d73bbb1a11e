// What is asked of the API for one view of the page: two rankings, and the ranks by which their hits are linked.

import { call } from "./api.js";
import { plain } from "./dom.js";
import { clause } from "./facets.js";

export const SIZE = 10;
export const LAST = 1000; // page: the API gives the first 10,000 hits
const DEPTH = 100; // ranks that are known beyond the page

export const LABELS = { bm25: "As the engine ranks: BM25", hybrid: "Hybrid: words and meaning", trained: "Trained reranker", session: "Your session" };

function asked(method, { session, without }) {
  if (method === "bm25") return { method: "vectors", alpha: 0 };
  if (method === "hybrid") return { method: "vectors" };
  if (method === "trained") return { method: "late" };
  return session ? { session, without } : {};
}

/** What a hit, or a judgement, is known by. */
export const keyOf = ({ _index, _id, index = _index, document = _id }) => JSON.stringify([index, document]);

const titles = new Map(); // of the cards that were shown, by their keys

/** What a judged document is called: as its card was, or as the service says. */
export const titleOf = (judged) => titles.get(keyOf(judged)) || plain(judged.title);

/** Everything that a state shows: the pages of hits, and where there is something to compare the ranks of the left method. */
export async function search(state, known, facets, signal) {
  const { index, query, compare, session, filters } = state;
  const common = { index, query, filter: filters.length ? { bool: { filter: filters.map(clause) } } : null };
  const page = { ...common, from: (state.page - 1) * SIZE, size: SIZE, highlight: true, documents: "card" };
  const depth = Math.min(page.from + DEPTH, LAST * SIZE);
  const ask = async (method, body) => {
    const found = await call("POST", "v1/search", { ...body, ...asked(method, state) }, signal);
    // hits are named as their judgements are: an alias for one index outlives that index
    if (known?.indices.length === 1) for (const hit of found.hits.hits) hit._index = index;
    return found;
  };
  const [right, left, base] = await Promise.all([
    ask(state.right, { ...page, reasons: true, facets }),
    compare ? ask(state.left, page) : { hits: { hits: [] } },
    compare || session ? ask(state.left, { ...common, size: depth, documents: "none" }) : null,
  ]);
  for (const hit of [...left.hits.hits, ...right.hits.hits]) {
    const { card } = hit.resift;
    for (const part of ["title", "text"]) card[part] = plain(card[part]).trim();
    titles.set(keyOf(hit), card.title);
  }
  return { state, depth, left, right, base: base && new Map(base.hits.hits.map((hit, at) => [keyOf(hit), at + 1])) };
}
