// The search page. Its state is stored in its address.

import * as api from "./api.js";
import * as panels from "./panels.js";
import { $, element, plain, plural } from "./dom.js";
import * as hits from "./hits.js";
import { LABELS, LAST, SIZE, keyOf, rankedBy, ranks, read, sayableFirst, search, write } from "./state.js";

const { index: defaultIndex } = document.body.dataset;
// Milliseconds.
const SLOW = 2000;
// Recent searches, stored on this device only, one per line.
const RECENT = "resift-recent", REMEMBERED = 6;
// Same as in the style sheet.
const roomy = matchMedia("(min-width: 62rem)"), wide = matchMedia("(min-width: 75rem)");
let state = fromAddress();
// The session as the service describes it.
let session = null;
// Results of the last search.
let shown = null;
// Description of the index: card fields, facets, examples.
let known = null;
let methods = ["vectors"];
// Aborts running requests when a newer search starts.
let running = new AbortController();
// Number of running tasks.
let tasks = 0;
// Timers: for completions after a pause in typing, and for the notice of a slow search.
let typing = null, slow = null;

/** Return the state in the address. If this browser does not know the session, leave it out, and ask whether to use it. */
function fromAddress() {
  const found = read(location.search, defaultIndex), { session: id } = found;
  if (!id || api.isOwn(id)) {
    panels.hideOffer();
    return found;
  }
  panels.offerSession(() => {
    go({ session: api.adopt(id) });
    attempt(begin);
  }, () => go({}, { replace: true }));
  return { ...found, session: "" };
}

async function attempt(work) {
  busy(1);
  try {
    await work();
    panels.sayOnline();
  } catch (error) {
    explain(error);
  } finally {
    document.body.classList.add("ready");
    busy(-1);
  }
}

function explain(error) {
  const again = () => attempt(begin);
  if (error.name === "AbortError") return;
  if (error instanceof api.Unreachable) panels.sayOffline(again);
  else if (error.status === 401) panels.askKey(error.message, again);
  else if (error.code === "forbidden" && shown) panels.toast("This key may search, but not mark.", () => panels.askKey("marks need an API key with the scope feedback", again), "Use another key");
  else if (error.code === "session_not_found") {
    session = null;
    panels.toast("The session has expired, or was deleted elsewhere.");
    attempt(update);
  } else {
    if (!(error instanceof api.ApiError)) console.error(error);
    hideResults();
    panels.sayError(error, again);
  }
}

function go(change, { replace = false } = {}) {
  state = { ...state, ...change };
  history[replace ? "replaceState" : "pushState"](null, "", write(state));
}

const describe = (more = "", signal) => api.call("GET", `v1/indices/${encodeURIComponent(state.index)}${more}`, undefined, signal);

/** Abort running requests, and return the signal for new requests. */
function renew() {
  running.abort();
  running = new AbortController();
  return running.signal;
}

async function begin() {
  const isNamed = Boolean(state.index);
  paintForm();
  if (!isNamed) await loadIndices();
  try {
    if (state.index) await open(renew());
  } finally {
    // A long list takes time, so it does not delay the search.
    if (isNamed) loadIndices().catch((error) => shown || explain(error));
  }
}

/** Show the index of the state, and run its search. */
async function open(signal) {
  const before = session?.session;
  [session, known] = await Promise.all([api.load(state.session, signal), known?.index === state.index ? known : describe("", signal)]);
  if (before !== session?.session) shown = null;
  if ($("index").value !== state.index) paintIndices([known]);
  $("examples").replaceChildren(...known.examples.map(pill));
  document.body.classList.toggle("with-facets", known.facets.length > 0);
  paintMethods();
  busy(0);
  await update();
}

async function loadIndices() {
  let found = { indices: [], methods };
  try {
    found = await api.call("GET", "v1/indices");
  } catch (error) {
    // Users who may search an index may lack the right to list indices. The index is then used by its name.
    if (!(error instanceof api.ApiError) || error.status === 401 || error.status >= 500) throw error;
  }
  methods = found.methods;
  if (!state.index && found.indices.length) state.index = found.indices[0].index;
  paintIndices(found.indices);
  paintMethods();
  $("welcome").hidden ||= !$("index").length;
  if (!$("index").length) panels.sayNoIndex();
}

function paintIndices(indices) {
  const names = indices.map(({ index, documents }) => [index, `${index} (${documents.toLocaleString("en")})`]);
  if (state.index && !names.some(([name]) => name === state.index)) names.unshift([state.index, state.index]);
  $("index").replaceChildren(...names.map(([value, label]) => element("option", { value }, label)));
  $("index").value = state.index;
}

const pill = (query) => element("button", { class: "pill", dir: "auto", onclick: () => ask(query) }, query);
const recent = () => api.stored("localStorage", RECENT).split("\n").filter(Boolean);

function paintForm() {
  $("query").value = state.query;
  document.body.classList.toggle("start", !state.query);
  $("welcome").hidden = Boolean(state.query);
  $("recent").hidden = !recent().length;
  $("recent").firstElementChild.replaceChildren(...recent().map(pill));
  document.title = state.query ? `${state.query} – Resift` : "Resift";
  panels.openShelf(state.drawer && Boolean(state.query));
  paintCompare();
}

function paintCompare() {
  document.body.classList.toggle("comparing", state.compare);
  $("compare").setAttribute("aria-pressed", state.compare);
  $("facets").open = roomy.matches && !state.compare;
}

function paintMethods() {
  for (const side of ["left", "right"]) {
    // Without vectors, the hybrid ranking equals the engine's ranking.
    const bare = known?.vectors === false, off = { bm25: bare, trained: !methods.includes("late") };
    const had = Object.keys(LABELS).filter((name) => !off[name] || state[side] === name);
    $(`${side}-method`).replaceChildren(...had.map((value) => element("option", { value }, LABELS[bare && value === "hybrid" ? "bm25" : value])));
    $(`${side}-method`).value = state[side];
  }
}

async function update({ by, base } = {}) {
  if (!state.query || !state.index) return hideResults();
  // `base` is only valid for the search that it belongs to.
  shown = await search(state, known, $("facets").open ? known.facets : [], renew(), by === rankedBy(state) ? base : undefined);
  paint();
}

function paint() {
  const { left, right } = shown, { total } = right.hits, grades = new Map(api.marks(session).map((one) => [keyOf(one), one.grade]));
  const none = !right.hits.hits.length && !left.hits.hits.length, { did_you_mean: other, reason } = right.resift;
  $("results").hidden = $("facets").hidden = none;
  $("message").hidden = true;
  $("suggestion").hidden = !other;
  if (other) $("suggestion").lastElementChild.replaceChildren(pill(other));
  panels.showFacets(right.resift.facets ?? {}, state.filters, act.filter);
  const count = `${total.relation === "gte" ? "more than " : ""}${plural(total.value, "document")}`;
  if (none && total.value) panels.sayBeyond(state.page, count, () => turnTo(1));
  else if (none) panels.sayEmpty(state, known, ask, () => filters([]));
  $("total").textContent = count;
  $("status").textContent = none && !total.value ? `Nothing found for ${state.query}` : `${count}, page ${state.page}`;
  const more = total.relation === "gte" || state.page * SIZE < total.value;
  $("page-number").textContent = `Page ${state.page}${more && state.page === LAST ? ", the last that can be shown" : ""}`;
  $("previous").disabled = state.page === 1;
  $("next").disabled = !more || state.page === LAST;
  $("pages").hidden = $("previous").disabled && $("next").disabled;
  $("note").textContent = state.right === "session" && state.left === "hybrid" && !grades.size ? "nothing marked yet, so both are the same" : "";
  $("said").hidden = !reason || (state.right === "bm25" && !right.resift.reranked) || right.resift.outcome === "nothing_to_add";
  $("said").firstElementChild.textContent = `Part of the ranking was left out: ${reason}. `;
  const words = sayableFirst(session?.learned, state.query);
  panels.showShelf(session, words, state.without, known, act);
  // Last, since it reads positions: layout is computed only once.
  if (!none) hits.showHits(shown, grades, words, known, act);
}

function hideResults() {
  hits.clearHits();
  shown = null;
  for (const id of ["results", "facets", "suggestion", "said", "message"]) $(id).hidden = true;
  $("status").textContent = "";
}

function busy(change) {
  tasks += change;
  $("progress").hidden = !tasks;
  $("results").setAttribute("aria-busy", tasks > 0);
  const waits = tasks > 0 && !shown && Boolean(known && state.query);
  document.body.classList.toggle("waiting", waits);
  // Reserves space.
  if (!shown) $("facets").hidden = !waits;
  if (tasks) slow ??= setTimeout(() => { $("slow").hidden = false; }, SLOW);
  else {
    slow = clearTimeout(slow);
    $("slow").hidden = true;
  }
}

function ask(text) {
  const query = text.trim();
  if (!query) return;
  clearTimeout(typing);
  go({ query, page: 1, ...(query === state.query ? {} : { filters: [] }) });
  // Start the search first.
  attempt(known ? update : begin);
  api.stored("localStorage", RECENT, [query, ...recent().filter((one) => one !== query)].slice(0, REMEMBERED).join("\n"));
  paintForm();
}

function filters(chosen) {
  go({ filters: chosen, page: 1 });
  attempt(update);
}

function turnTo(page) {
  go({ page });
  attempt(async () => {
    await update();
    scrollTo(0, 0);
  });
}

/**
 * Return the ranks of the left column to compare with, as a promise (`base`), and the search that they belong to (`by`).
 * They are requested while a mark is being stored. The result is empty if the mark changes these ranks.
 */
function unmoved() {
  const by = rankedBy(state);
  if (state.left === "session") return {};
  const base = shown?.base && rankedBy(shown.state) === by ? shown.base : ranks(state, known);
  // Update() awaits it.
  base.catch?.(() => undefined);
  return { by, base };
}

/** Judge a document. Returns true if the session belongs to another user, so that a new session was started. */
async function judge(key, grade) {
  const [index, document] = JSON.parse(key), judged = { index, document, query: state.query };
  if (!state.session) go({ session: api.adopt(api.newId()) }, { replace: true });
  try {
    session = await api.judge(state.session, judged, grade);
  } catch (error) {
    if (error.code !== "session_not_found") throw error;
    go({ session: api.adopt(api.newId()) });
    session = await api.judge(state.session, judged, grade);
    return true;
  }
  return false;
}

const SAID = { 1: "Marked as relevant", 0: "Mark taken back", "-1": "Marked as not relevant. This only lowers similar hits; relevant marks find more" };

const act = {
  // Mark a hit or judgement. The same mark again withdraws it.
  mark: (judged, grade) => attempt(async () => {
    const key = keyOf(judged), had = api.marks(session), now = had.find((one) => keyOf(one) === key)?.grade ?? 0, wanted = now === grade ? 0 : grade;
    hits.press(key, wanted);
    // The mark is sent first.
    const noted = judge(key, wanted), left = unmoved();
    let other = false;
    try {
      other = await noted;
    } catch (error) {
      // The mark was not stored.
      hits.press(key, now);
      throw error;
    }
    // Open the shelf at the first mark, if the window is wide enough.
    if (wanted && !had.length && wide.matches) go({ drawer: true }, { replace: true });
    panels.openShelf(state.drawer);
    await update(left);
    panels.toast(`${other ? "The session of this link is somebody else’s. A new session was started. " : ""}${SAID[wanted]}.`, act.undo);
  }),
  read: (card) => attempt(async () => {
    if (card.snippet.hidden) return hits.hideText(card);
    const { _index: index, _id: id, resift: { card: { title } } } = card.hit;
    const _source = [...new Set([known.card.title, known.card.text, ...known.fields].filter(Boolean))];
    const found = await api.call("POST", "v1/search", { index, query: { query: { ids: { values: [id] } }, size: 1, ...(_source.length && { _source }) } });
    return hits.showText(card, texts(found.hits.hits[0]?._source ?? {}).map(plain).filter((text) => text.trim() !== title).join("\n\n"));
  }),
  undo: () => attempt(async () => {
    const left = unmoved();
    session = await api.undo(state.session);
    await update(left);
    panels.toast("Undone.");
  }),
  forget: () => attempt(async () => {
    await api.forget(state.session);
    session = null;
    go({ session: "", without: [] }, { replace: true });
    panels.toast("The session was deleted.");
    await update();
  }),
  // Copy the address without the session, or show it where the browser lets no page copy.
  copy: async () => {
    const link = new URL(write({ ...state, session: "", drawer: false, without: [] }), location.href).href;
    try {
      await navigator.clipboard.writeText(link);
      panels.toast("Copied a link without your session.");
    } catch {
      prompt("Link without your session", link);
    }
  },
  without: (word) => {
    go({ without: state.without.includes(word) ? state.without.filter((one) => one !== word) : [...state.without, word] });
    attempt(update);
  },
  filter: (field, value) => {
    const others = state.filters.filter((one) => one.field !== field || one.value !== value);
    filters(others.length < state.filters.length ? others : [...others, { field, value }]);
  },
};

const texts = (value) => typeof value === "string" ? [value] : Object.values(Object(value)).flatMap(texts);

function toggle(open) {
  if (state.drawer === open) return;
  go({ drawer: open }, { replace: true });
  panels.openShelf(open);
  hits.drawLines();
  $(open ? "close" : "toggle").focus();
}

/** Show completions of the typed text, or recent searches if it is empty. */
function complete() {
  clearTimeout(typing);
  typing = setTimeout(async () => {
    const text = $("query").value.trim();
    // Failures are ignored, since searches work without completions.
    const found = text && state.index ? await describe(`/suggestions?q=${encodeURIComponent(text.slice(0, 200))}`).catch(() => null) : { suggestions: recent() };
    if (found && text === $("query").value.trim()) $("completions").replaceChildren(...found.suggestions.map((value) => element("option", { value })));
  }, 120);
}

const on = (id, event, work) => $(id).addEventListener(event, work);

panels.listen({ mark: act.mark, undo: () => session?.steps && act.undo(), close: () => toggle(false) });
on("query", "input", complete);
on("form", "submit", (event) => {
  event.preventDefault();
  ask($("query").value);
  // Keyboard shortcuts apply to the hits.
  $("query").blur();
});
on("index", "change", () => {
  go({ index: $("index").value, page: 1, filters: [] });
  known = null;
  attempt(begin);
});
for (const side of ["left", "right"]) {
  on(`${side}-method`, "change", (event) => {
    go({ [side]: event.target.value, page: 1 });
    attempt(update);
  });
}
on("compare", "click", () => {
  go({ compare: !state.compare, left: "hybrid", right: "session" });
  paintCompare();
  paintMethods();
  attempt(update);
});
on("toggle", "click", () => toggle(!state.drawer));
on("close", "click", () => toggle(false));
for (const name of ["undo", "forget", "copy"]) on(name, "click", act[name]);
// Facets are only counted while they are visible.
on("facets", "toggle", () => $("facets").open && shown && !shown.right.resift.facets && attempt(update));
on("previous", "click", () => turnTo(state.page - 1));
on("next", "click", () => turnTo(state.page + 1));
on("again", "click", () => attempt(update));
on("stop", "click", () => {
  running.abort();
  if (!shown) panels.sayStopped(() => attempt(begin));
});
on("clear", "click", () => {
  api.stored("localStorage", RECENT, "");
  paintForm();
  $("query").focus();
});
on("home", "click", (event) => {
  event.preventDefault();
  panels.hideOffer();
  go(read("", state.index));
  session = null;
  paintForm();
  hideResults();
  $("query").focus();
});
addEventListener("popstate", () => {
  panels.hideToast();
  state = fromAddress();
  attempt(begin);
});
new ResizeObserver(hits.drawLines).observe($("columns"));
// Not on phones, where the keyboard would cover the page.
if (!state.query && innerWidth > 760) $("query").focus();
if (!state.query) complete();
attempt(begin);
