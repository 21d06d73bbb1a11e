// The page's state, which is stored in its address, and the searches for a state: two rankings, and ranks to compare.

import { call } from "./api.js";
import { plain, shortName } from "./dom.js";

export const SIZE = 10;
// Last page: the API returns the first 10,000 hits.
export const LAST = 1000;
// Number of ranks to compare with.
const DEPTH = 100;

export const LABELS = { bm25: "As the engine ranks: BM25", hybrid: "Hybrid: words and meaning", trained: "Trained reranker", session: "Your session" };

const FORM = /^\[([^,]*),([^,]*)\)$/;

/** Return a filter's value in readable form. Dates at the start of a month or year are shortened. */
export function shownValue(value) {
  const [, ...ends] = FORM.exec(value) ?? [];
  if (!ends.length) return value;
  const [from, to] = ends.map((one) => one.replace(/^(\d{4}-\d\d)-01.*/, "$1").replace(/^(\d{4})-01$/, "$1")), dated = from + to !== ends.join("");
  if (!from) return `${dated ? "before" : "below"} ${to}`;
  return to ? `${from} to ${to}` : `${from} and ${dated ? "later" : "more"}`;
}

export const named = ({ field, value }) => `${shortName(field)}: ${shownValue(value)}`;

function clause({ field, value }) {
  const [, from, to] = FORM.exec(value) ?? [];
  if (from === undefined) return { term: { [field]: value } };
  return { range: { [field]: { ...(from && { gte: limit(from) }), ...(to && { lt: limit(to) }) } } };
}

const limit = (text) => /^-?[\d.]+(e[-+]?\d+)?$/i.test(text) ? Number(text) : text;

const asked = (method, { session, without }) => ({
  bm25: { method: "vectors", alpha: 0 },
  hybrid: { method: "vectors" },
  trained: { method: "late" },
  session: session && { session, without },
})[method];

/** Return the key of a hit's or judgement's document: its index and id. */
export const keyOf = ({ _index, _id, index = _index, document = _id }) => JSON.stringify([index, document]);

// Key → title, of cards that were shown.
const titles = new Map();

/** Return the title of a judged document: the title on its card, or else the title in the service's answer. */
export const titleOf = (judged) => titles.get(keyOf(judged)) || plain(judged.title);

// Words of titles and facts that were shown.
const spoken = new Set();
const wordsOf = (texts) => texts.join(" ").toLocaleLowerCase().split(/[^\p{L}\p{N}]+/u);
const learnToSay = (texts) => wordsOf(texts).forEach(spoken.add, spoken);

/**
 * Return the words that the session adds to a query, in two lists: those that people say, which are in a title or a fact, and all
 * others. Words of the query itself are left out.
 */
export function sayableFirst(learned, query) {
  learnToSay((learned?.because ?? []).map(titleOf));
  // In Chinese and Japanese, each character is a word.
  const own = wordsOf([query, ...query]);
  const words = (learned?.asked ?? []).filter((word) => !own.includes(word)), said = words.filter(spoken.has, spoken);
  return said.length ? [said, words.filter((word) => !spoken.has(word))] : [words, said];
}

const common = ({ index, query, filters }) => ({ index, query, filter: filters.length ? { bool: { filter: filters.map(clause) } } : null });

async function ask(state, known, side, body, signal) {
  const found = await call("POST", "v1/search", { ...common(state), ...body, ...asked(state[side], state) }, signal);
  // Use the searched name as the index of hits and judgements, since an alias outlives its index.
  if (known?.indices.length === 1) for (const hit of found.hits.hits) hit._index = state.index;
  return found;
}

const depthOf = ({ page }) => Math.min((page - 1) * SIZE + DEPTH, LAST * SIZE);

export const rankedBy = ({ index, query, filters, page, left }) => JSON.stringify([index, query, filters, page, left]);

/** Return the ranks of hits by the method of the left column. Marks change them only if that method is "session". */
export async function ranks(state, known, signal) {
  const found = await ask(state, known, "left", { size: depthOf(state), documents: "none" }, signal);
  return new Map(found.hits.hits.map((hit, at) => [keyOf(hit), at + 1]));
}

/** Run the searches for a state: the pages of hits, and ranks() if there is something to compare. */
export async function search(state, known, facets, signal, base = state.compare || state.session ? ranks(state, known, signal) : null) {
  const page = { from: (state.page - 1) * SIZE, size: SIZE, highlight: true, documents: "card" };
  const [right, left, places] = await Promise.all([
    ask(state, known, "right", { ...page, reasons: true, facets }, signal),
    state.compare ? ask(state, known, "left", page, signal) : { hits: { hits: [] } },
    base,
  ]);
  for (const hit of [...left.hits.hits, ...right.hits.hits]) {
    const { card } = hit.resift;
    for (const part of ["title", "text"]) card[part] = plain(card[part]).trim();
    titles.set(keyOf(hit), card.title);
    learnToSay([card.title, ...Object.values(card.facts ?? {})]);
  }
  return { state, depth: depthOf(state), left, right, base: places };
}

const DEFAULTS = { index: "", query: "", session: "", page: 1, left: "hybrid", right: "session", filters: [], drawer: false, compare: false, without: [] };

/** Return the state in an address, with defaults for missing and invalid parts. */
export function read(search, index) {
  const given = new URLSearchParams(search);
  const state = { ...DEFAULTS, index: given.get("index") || index, query: given.get("q") || "" };
  const session = given.get("session") || "";
  if (/^[A-Za-z0-9_.:-]{1,128}$/.test(session)) state.session = session;
  const page = Number(given.get("page"));
  if (Number.isInteger(page) && page > 0 && page <= LAST) state.page = page;
  for (const side of ["left", "right"]) if (Object.hasOwn(LABELS, given.get(side))) state[side] = given.get(side);
  state.filters = given.getAll("filter").filter((one) => one.indexOf(":") > 0).slice(0, 20).map((one) => {
    const at = one.indexOf(":");
    return { field: one.slice(0, at), value: one.slice(at + 1) };
  });
  state.compare = ["compare", "left", "right"].some((name) => given.get(name));
  state.without = given.getAll("without").filter(Boolean).slice(0, 100);
  state.drawer = given.get("drawer") === "1";
  return state;
}

export function write(state) {
  const said = new URLSearchParams();
  for (const [name, value] of [["index", state.index], ["q", state.query], ["session", state.session]]) if (value) said.set(name, value);
  for (const { field, value } of state.filters) said.append("filter", `${field}:${value}`);
  for (const name of ["page", "left", "right"]) if (state[name] !== DEFAULTS[name]) said.set(name, state[name]);
  for (const word of state.without) said.append("without", word);
  for (const name of ["compare", "drawer"]) if (state[name]) said.set(name, "1");
  return `?${said}`;
}
