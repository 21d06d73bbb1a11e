// What is asked of the API for one view of the page: two rankings, and the ranks by which their hits are linked.

import { request } from "./api.js";
import { clause } from "./ranges.js";

export const SIZE = 10;
export const LAST = 1000; // page: the API gives the first 10,000 hits
const DEPTH = 100; // ranks that are known beyond the page

export const NAMES = { bm25: "BM25", hybrid: "hybrid", trained: "the trained reranker", session: "your session" };
export const LABELS = {
  bm25: "As the engine ranks: BM25",
  hybrid: "Hybrid: words and meaning",
  trained: "Trained reranker",
  session: "Your session",
};

/** The part of a search's body that stands for a method. */
function asked(method, { session, alpha }) {
  const weight = alpha === null ? {} : { alpha };
  if (method === "bm25") return { method: "vectors", alpha: 0 };
  if (method === "hybrid") return { method: "vectors", ...weight };
  if (method === "trained") return { method: "late", ...weight };
  return session ? { session, ...weight } : weight;
}

function filter(filters) {
  return filters.length ? { bool: { filter: filters.map(clause) } } : null;
}

/** The bodies of the searches for a state; those that it does not need are undefined. */
export function bodies(state, facets) {
  const common = { index: state.index, query: state.query, filter: filter(state.filters) };
  const page = { from: (state.page - 1) * SIZE, size: SIZE, highlight: true, documents: "card" };
  const depth = Math.min(page.from + DEPTH, LAST * SIZE), ranks = { size: depth, documents: "none" };
  const shown = { ...common, ...page, ...asked(state.right, state), reasons: true, facets: state.drawer ? facets : [] };
  return {
    depth,
    left: { ...common, ...page, ...asked(state.left, state) },
    right: shown,
    base: { ...common, ...ranks, ...asked(state.left, state) },
    words: by(state) === "parts" ? { ...common, ...ranks, session: state.session, method: "vectors", alpha: 0 } : undefined,
  };
}

/** How the places that a hit won can be told apart: see why.js. */
export function by({ left, right, session }) {
  if (left !== "bm25" || right === "bm25") return null;
  return right === "session" && session ? "parts" : "meaning";
}

export const keyOf = (hit) => JSON.stringify([hit._index, hit._id]);

const titles = new Map(); // of the cards that were shown, by their keys

/** What a judged document is called: as its card was, or as the service says. */
export const titleOf = ({ index, document, title }) => titles.get(JSON.stringify([index, document])) || title;

const ranksOf = (answer) => new Map(answer?.hits.hits.map((hit, at) => [keyOf(hit), at + 1]));

/** An answer whose hits are named as their judgements are: an alias for one index outlives that index. */
function named(found, index, known) {
  if (known?.indices.length === 1) for (const hit of found.answer.hits.hits) hit._index = index;
  return found;
}

/**
 * Everything that a state shows: both pages of hits, the ranks of the left method, and how long the parts took.
 * `known` says how the index is shown, and what its name stands for.
 */
export async function search(state, known, signal) {
  const asking = bodies(state, known?.facets ?? []);
  const started = performance.now();
  const ask = async (body) => body === undefined ? {} : named(await request("POST", "v1/search", body, { signal }), state.index, known);
  const timed = ask(asking.right).then((found) => ({ ...found, milliseconds: performance.now() - started }));
  const [right, left, base, words] = await Promise.all([timed, ask(asking.left), ask(asking.base), ask(asking.words)]);
  for (const { answer } of [left, right]) for (const hit of answer.hits.hits) titles.set(keyOf(hit), hit.resift.card.title);
  return {
    state,
    depth: asking.depth,
    left: left.answer,
    right: right.answer,
    base: ranksOf(base.answer),
    words: ranksOf(words.answer),
    took: parts(right.headers.get("Server-Timing"), right.milliseconds),
  };
}

/** What took how many milliseconds: the service's own parts, and the rest of the way as the network. */
export function parts(header, milliseconds) {
  const found = [...(header ?? "").matchAll(/([\w-]+);dur=([\d.]+)/g)].map(([, name, duration]) => ({ name, duration: Number(duration) }));
  const inside = found.reduce((sum, one) => sum + one.duration, 0);
  return [...found, { name: "network", duration: Math.max(0, milliseconds - inside) }];
}
