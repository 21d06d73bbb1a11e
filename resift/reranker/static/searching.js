// What is asked of the API for one view of the page: two rankings, and the ranks by which their hits are linked.

import { call } from "./api.js";
import { clause } from "./ranges.js";

export const SIZE = 10;
export const LAST = 1000; // page: the API gives the first 10,000 hits
const DEPTH = 100; // ranks that are known beyond the page

export const NAMES = { bm25: "BM25", hybrid: "the search without marks", trained: "the trained reranker", session: "your session" };
export const LABELS = {
  bm25: "As the engine ranks: BM25",
  hybrid: "Hybrid: words and meaning",
  trained: "Trained reranker",
  session: "Your session",
};

/** The part of a search's body that stands for a method. */
function asked(method, { session, alpha, without }) {
  const weight = alpha === null ? {} : { alpha };
  if (method === "bm25") return { method: "vectors", alpha: 0 };
  if (method === "hybrid") return { method: "vectors", ...weight };
  if (method === "trained") return { method: "late", ...weight };
  return session ? { session, ...weight, ...(without.length ? { without } : {}) } : weight;
}

function filter(filters) {
  return filters.length ? { bool: { filter: filters.map(clause) } } : null;
}

/** The bodies of the searches for a state; those that it does not need are undefined. */
function bodies(state, facets) {
  const common = { index: state.index, query: state.query, filter: filter(state.filters) };
  const page = { from: (state.page - 1) * SIZE, size: SIZE, highlight: true, documents: "card" };
  const depth = Math.min(page.from + DEPTH, LAST * SIZE), ranks = { size: depth, documents: "none" };
  const shown = { ...common, ...page, ...asked(state.right, state), reasons: true, facets: state.drawer ? facets : [] };
  return {
    depth,
    left: state.compare ? { ...common, ...page, ...asked(state.left, state) } : undefined,
    right: shown,
    base: state.compare || state.session ? { ...common, ...ranks, ...asked(state.left, state) } : undefined,
  };
}

export const keyOf = (hit) => JSON.stringify([hit._index, hit._id]);

const titles = new Map(); // of the cards that were shown, by their keys

/** What a judged document is called: as its card was, or as the service says. */
export const titleOf = ({ index, document, title }) => titles.get(JSON.stringify([index, document])) || title;

const NOTHING = { hits: { hits: [] } };
const ranksOf = (answer) => new Map(answer.hits.hits.map((hit, at) => [keyOf(hit), at + 1]));

/** An answer whose hits are named as their judgements are: an alias for one index outlives that index. */
function named(found, index, known) {
  if (known?.indices.length === 1) for (const hit of found.hits.hits) hit._index = index;
  return found;
}

/**
 * Everything that a state shows: the pages of hits, and the ranks of the left method. `known` says how the index is
 * shown, and what its name stands for.
 */
export async function search(state, known, signal) {
  const asking = bodies(state, known?.facets ?? []);
  const ask = async (body) => body === undefined ? NOTHING : named(await call("POST", "v1/search", body, { signal }), state.index, known);
  const [right, left, base] = await Promise.all([asking.right, asking.left, asking.base].map(ask));
  for (const answer of [left, right]) for (const hit of answer.hits.hits) titles.set(keyOf(hit), hit.resift.card.title);
  return { state, depth: asking.depth, left, right, base: asking.base && ranksOf(base) };
}
