// The search page: the address says what is searched, and what is done changes the address.

import * as api from "./api.js";
import * as panels from "./panels.js";
import { $, element, plain, plural } from "./dom.js";
import * as hits from "./hits.js";
import { LABELS, LAST, SIZE, keyOf, rankedBy, ranks, read, search, write } from "./state.js";

const { index: defaultIndex } = document.body.dataset;
const SLOW = 2000; // milliseconds
const RECENT = "resift-recent", REMEMBERED = 6; // searches, one a line, on this device only
const roomy = matchMedia("(min-width: 62rem)"), wide = matchMedia("(min-width: 75rem)"); // as in the style
let state = read(location.search, defaultIndex);
let session = null; // what the service keeps of it
let shown = null; // the last search that was answered
let known = null; // how the index is shown: its card, facets and examples
let methods = ["vectors"];
let running = new AbortController(); // what is under way, which a newer search ends
let tasks = 0; // that are under way
let typing = null, slow = null; // timers: the pause in typing before completions are asked for, and patience

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
  else if (error.code === "forbidden" && shown) panels.toast("This key may search, but not mark.", () => panels.askKey("Marks need a key with the scope feedback", again), "Use another key");
  else if (error.code === "session_not_found") {
    session = null;
    panels.toast("The session was over already: it was not used for long, or ended elsewhere.");
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

/** End what is under way; the signal by which what begins now may be ended. */
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
    if (isNamed) loadIndices().catch((error) => shown || explain(error)); // many take long
  }
}

/** Show the index of the state, and what is searched there. */
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
    // who may search an index need not be allowed to list them: one is then taken by its name
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
const recent = () => api.kept("localStorage", RECENT).split("\n").filter(Boolean);

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
  $("compare").setAttribute("aria-pressed", String(state.compare));
  $("facets").open = roomy.matches && !state.compare;
}

function paintMethods() {
  for (const side of ["left", "right"]) {
    // without vectors the hybrid ranking is the engine's own
    const bare = known?.vectors === false, off = { bm25: bare, trained: !methods.includes("late") };
    const had = Object.keys(LABELS).filter((name) => !off[name] || state[side] === name);
    $(`${side}-method`).replaceChildren(...had.map((value) => element("option", { value }, LABELS[bare && value === "hybrid" ? "bm25" : value])));
    $(`${side}-method`).value = state[side];
  }
}

async function update({ by, base } = {}) {
  if (!state.query || !state.index) return hideResults();
  // they may be of what was searched before
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
  $("said").firstElementChild.textContent = `Ranked without a part: ${reason}. `;
  panels.showShelf(session, state.without, known, act);
  // last, as it asks for places: all is laid out once
  if (!none) hits.showHits(shown, grades, session?.learned?.asked ?? [], known, act);
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
  $("results").setAttribute("aria-busy", String(tasks > 0));
  const waits = tasks > 0 && !shown && Boolean(known && state.query);
  document.body.classList.toggle("waiting", waits);
  if (!shown) $("facets").hidden = !waits; // a place for them
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
  attempt(known ? update : begin); // before what can wait
  api.kept("localStorage", RECENT, [query, ...recent().filter((one) => one !== query)].slice(0, REMEMBERED).join("\n"));
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
    scrollTo({ top: 0 });
  });
}

/** The ranks that no mark changes, asked while one is noted unless they are known; none where a mark does. */
function unmoved() {
  const by = rankedBy(state);
  if (state.left === "session") return {};
  const base = shown?.base && rankedBy(shown.state) === by ? shown.base : ranks(state, known);
  base.catch?.(() => undefined); // update waits for it
  return { by, base };
}

/** Judge a document; true if the session was somebody else's, so that a new one begins. */
async function judge(key, grade) {
  const [index, document] = JSON.parse(key), judged = { index, document, query: state.query };
  if (!state.session) go({ session: api.newId() }, { replace: true });
  try {
    session = await api.judge(state.session, judged, grade);
  } catch (error) {
    if (error.code !== "session_not_found") throw error;
    go({ session: api.newId() });
    session = await api.judge(state.session, judged, grade);
    return true;
  }
  return false;
}

const SAID = { 1: "Marked as relevant", 0: "Mark taken back", "-1": "Marked as not relevant" };

const act = {
  // a hit, or a judgement: the same mark once more takes it back
  mark: (judged, grade) => attempt(async () => {
    const key = keyOf(judged), had = api.marks(session), now = had.find((one) => keyOf(one) === key)?.grade ?? 0, wanted = now === grade ? 0 : grade;
    hits.press(key, wanted);
    const noted = judge(key, wanted), left = unmoved(); // the mark first
    let other = false;
    try {
      other = await noted;
    } catch (error) {
      hits.press(key, now); // it was not noted
      throw error;
    }
    // the shelf shows itself once, where there is room for it
    if (wanted && !had.length && wide.matches) go({ drawer: true }, { replace: true });
    panels.openShelf(state.drawer);
    await update(left);
    panels.toast(`${other ? "The session of this link is somebody else’s, so yours begins. " : ""}${SAID[wanted]}.`, act.undo);
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
    panels.toast("The session is forgotten.");
    await update();
  }),
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

/** Offer what the text may become that is typed; at first, recent searches. */
function complete() {
  clearTimeout(typing);
  typing = setTimeout(async () => {
    const text = $("query").value.trim();
    // a search works without them
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
  $("query").blur(); // keys are about the hits
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
// facets are counted only where they are seen
on("facets", "toggle", () => $("facets").open && shown && !shown.right.resift.facets && attempt(update));
on("previous", "click", () => turnTo(state.page - 1));
on("next", "click", () => turnTo(state.page + 1));
on("again", "click", () => attempt(update));
on("stop", "click", () => {
  running.abort();
  if (!shown) panels.sayStopped(() => attempt(begin));
});
on("clear", "click", () => {
  api.kept("localStorage", RECENT, "");
  paintForm();
  $("query").focus();
});
on("home", "click", (event) => {
  event.preventDefault();
  go(read("", state.index));
  session = null;
  paintForm();
  hideResults();
  $("query").focus();
});
addEventListener("popstate", () => {
  state = read(location.search, defaultIndex);
  attempt(begin);
});
new ResizeObserver(hits.drawLines).observe($("columns"));
// not on a phone, whose keyboard would cover the page
if (!state.query && innerWidth > 760) $("query").focus();
if (!state.query) complete();
attempt(begin);
