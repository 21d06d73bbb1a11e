// The search page. The address says what is shown; this module turns it into searches, and what is done into addresses.

import { read, write } from "./address.js";
import { ApiError, Unreachable, call } from "./api.js";
import { hideText, showText } from "./cards.js";
import * as columns from "./columns.js";
import { $, element, plural, shortName } from "./dom.js";
import * as drawer from "./drawer.js";
import { listen } from "./keys.js";
import * as messages from "./messages.js";
import { shownValue } from "./ranges.js";
import { LABELS, LAST, SIZE, keyOf, search } from "./searching.js";
import * as sessions from "./session.js";

const { index: defaultIndex, alpha } = document.body.dataset;
let state = read(location.search, defaultIndex);
let session = null; // what the service keeps of it
let shown = null; // the last search that was answered
let known = null; // how the index is shown: its card, facets and examples
let methods = ["vectors"];
let running = null; // the search under way, which a newer one ends
let tasks = 0; // that are under way
let typing = null; // the pause in typing after which completions are asked for

// ---- from the address to the page

async function attempt(work) {
  busy(++tasks);
  try {
    await work();
    messages.sayOnline();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (error instanceof Unreachable) messages.sayOffline(() => attempt(begin));
    else if (error instanceof ApiError && error.status === 401) messages.askKey(error.message, () => attempt(begin));
    else if (error.code === "session_not_found") {
      session = null;
      messages.toast("The session was over already: it was not used for long, or ended elsewhere.");
      attempt(update);
    } else {
      if (!(error instanceof ApiError)) console.error(error);
      hideResults();
      messages.sayError(error, () => attempt(begin));
    }
  } finally {
    document.body.classList.add("ready");
    busy(--tasks);
  }
}

function go(change, { replace = false } = {}) {
  state = { ...state, ...change };
  history[replace ? "replaceState" : "pushState"](null, "", write(state));
}

async function begin() {
  paintForm();
  await loadIndices();
  if (!state.index) return;
  const before = session?.session;
  session = await sessions.load(state.session);
  if (before !== session?.session) shown = null;
  known = await call("GET", `v1/indices/${encodeURIComponent(state.index)}`);
  paintExamples();
  await update();
}

async function loadIndices() {
  let found = { indices: [], methods };
  try {
    found = await call("GET", "v1/indices");
  } catch (error) {
    // who may search an index need not be allowed to list them: one is then taken by its name
    if (!(error instanceof ApiError) || error.status === 401 || error.status >= 500) throw error;
  }
  methods = found.methods;
  if (!state.index && found.indices.length) state.index = found.indices[0].index;
  const names = found.indices.map(({ index, documents }) => [index, `${index} (${documents.toLocaleString("en")})`]);
  if (state.index && !names.some(([name]) => name === state.index)) names.unshift([state.index, state.index]);
  $("index").replaceChildren(...names.map(([value, label]) => element("option", { value }, label)));
  $("index").value = state.index;
  paintMethods();
  if (!names.length) {
    $("welcome").hidden = true;
    messages.sayNoIndex();
  }
}

function paintForm() {
  $("query").value = state.query;
  document.body.classList.toggle("start", !state.query);
  $("welcome").hidden = Boolean(state.query);
  document.title = state.query ? `${state.query} – Resift` : "Resift";
  drawer.setOpen(state.drawer && Boolean(state.query));
  paintCompare();
}

function paintCompare() {
  document.body.classList.toggle("comparing", state.compare);
  $("compare").setAttribute("aria-pressed", String(state.compare));
}

function paintMethods() {
  for (const side of ["left", "right"]) {
    const had = Object.keys(LABELS).filter((name) => name !== "trained" || methods.includes("late") || state[side] === name);
    $(`${side}-method`).replaceChildren(...had.map((value) => element("option", { value }, LABELS[value])));
    $(`${side}-method`).value = state[side];
    $("tabs").querySelector(`[data-side=${side}]`).textContent = LABELS[state[side]].replace(/:.*/, "");
  }
}

function paintExamples() {
  const pills = known.examples.map((one) => element("button", { type: "button", class: "pill", dir: "auto", onclick: () => ask(one) }, one));
  $("examples").replaceChildren(...pills);
}

/** Search for what the state says, and show it. */
async function update() {
  if (!state.query || !state.index) return hideResults();
  running?.abort();
  running = new AbortController();
  shown = await search(state, known, running.signal);
  paint();
}

function paint() {
  const { left, right } = shown, total = right.hits.total;
  const none = !right.hits.hits.length && !left.hits.hits.length;
  $("results").hidden = none;
  messages.clearMessage();
  suggest(right.resift.did_you_mean);
  paintFilters();
  const count = `${total.relation === "gte" ? "more than " : ""}${plural(total.value, "document")}`;
  if (!none) columns.show(shown, sessions.grades(session), session?.learned?.asked ?? [], known?.card.title, act);
  else if (total.value) messages.sayBeyond(state.page, count, () => turnTo(1));
  else messages.sayEmpty(state, known?.examples ?? [], ask, () => filters([]));
  $("total").textContent = count;
  $("status").textContent = none && !total.value ? `Nothing found for ${state.query}` : `${count}, page ${state.page}`;
  const more = total.relation === "gte" || state.page * SIZE < total.value;
  $("page-number").textContent = `Page ${state.page}${more && state.page === LAST ? ", the last that can be shown" : ""}`;
  $("previous").disabled = state.page === 1;
  $("next").disabled = !more || state.page === LAST;
  $("pages").hidden = $("previous").disabled && $("next").disabled;
  $("note").textContent = state.right === "session" && state.left === "hybrid" && !sessions.grades(session).size ? "nothing marked yet, so both are the same" : "";
  reason(right.resift);
  drawer.show(session, shown, state, alpha, act);
}

function reason({ reranked, outcome, reason: said }) {
  $("said").hidden = !said || (state.right === "bm25" && !reranked) || outcome === "nothing_to_add";
  if (!$("said").hidden) $("said").textContent = `Ranked without a part: ${said}`;
}

function suggest(query) {
  $("suggestion").hidden = !query;
  if (!query) return;
  const link = element("a", { href: write({ ...state, query, page: 1 }), onclick: (event) => {
    event.preventDefault();
    ask(query);
  } }, query);
  $("suggestion").replaceChildren("Did you mean ", link, "?");
}

function paintFilters() {
  $("chosen").replaceChildren(...state.filters.map((one) => element("button", { type: "button", class: "pill", "aria-label": `Remove the filter ${shortName(one.field)}: ${shownValue(one.value)}`, onclick: () => act.filter(one.field, one.value) },
    element("span", { dir: "auto" }, `${shortName(one.field)}: ${shownValue(one.value)}`), " ×")));
}

function hideResults() {
  columns.clear();
  shown = null;
  $("results").hidden = $("suggestion").hidden = true;
  $("status").textContent = "";
  messages.clearMessage();
}

function busy(count) {
  $("progress").hidden = !count;
  $("results").setAttribute("aria-busy", String(count > 0));
  document.body.classList.toggle("waiting", count > 0 && !shown && Boolean(state.query));
}

// ---- from what is done to the address

function ask(query) {
  query = query.trim();
  if (!query) return;
  go({ query, page: 1, ...(query === state.query ? {} : { filters: [] }) });
  paintForm();
  columns.closeTexts();
  attempt(known ? update : begin);
}

function filters(chosen) {
  go({ filters: chosen, page: 1 });
  attempt(update);
}

function turnTo(page) {
  go({ page });
  columns.closeTexts();
  attempt(async () => {
    await update();
    scrollTo({ top: 0 });
  });
}

function began() {
  if (!state.session) go({ session: sessions.newId() }, { replace: true });
  return state.session;
}

/** Judge a hit; true if the session was somebody else's, so that one of one's own begins. */
async function judge(hit, grade, options) {
  const judged = { index: hit._index, document: hit._id, query: state.query };
  try {
    session = await sessions.judge(began(), judged, grade, options);
  } catch (error) {
    if (error.code !== "session_not_found") throw error;
    go({ session: sessions.newId() });
    session = await sessions.judge(state.session, judged, grade, options);
    return true;
  }
  return false;
}

const wide = matchMedia("(min-width: 75rem)");
const SAID = { 1: "Marked as relevant", 0: "Mark taken back", "-1": "Marked as not relevant" };

const act = {
  mark: (hit, grade) => attempt(async () => {
    const had = sessions.grades(session), now = had.get(keyOf(hit)), wanted = now === grade ? 0 : grade;
    columns.press(hit, wanted);
    let other = false;
    try {
      other = await judge(hit, wanted);
    } catch (error) {
      columns.press(hit, now ?? 0); // it was not noted
      throw error;
    }
    // the shelf shows itself once, where there is room for it
    if (wanted && !had.size && wide.matches) go({ drawer: true }, { replace: true });
    drawer.setOpen(state.drawer);
    await update();
    messages.toast(`${other ? "The session of this link is somebody else’s, so yours begins. " : ""}${SAID[wanted]}.`, act.undo);
  }),
  read: (card) => attempt(async () => {
    if (card.snippet.hidden) return hideText(card);
    const { _index: index, _id: id } = card.hit;
    const found = await call("POST", "v1/search", { index, query: { query: { ids: { values: [id] } }, size: 1 } });
    showText(card, wholeText(found.hits.hits[0]?._source ?? {}, card.hit.resift.card.title));
    return undefined;
  }),
  drop: ({ index, document }) => attempt(async () => {
    session = await sessions.judge(state.session, { index, document, query: state.query }, 0);
    await update();
  }),
  undo: () => attempt(async () => {
    session = await sessions.undo(state.session);
    await update();
  }),
  forget: () => attempt(async () => {
    await sessions.forget(state.session);
    session = null;
    go({ session: "", without: [] }, { replace: true });
    messages.toast("The session is forgotten.");
    await update();
  }),
  fresh: () => {
    session = null;
    go({ session: "", without: [] });
    messages.toast("A new session begins with your next mark.");
    attempt(update);
  },
  duplicate: () => attempt(async () => {
    if (!session) return messages.toast("Nothing is marked yet.");
    const id = sessions.newId();
    session = await sessions.copy(session, id);
    go({ session: id });
    messages.toast("This is a copy: what you mark now leaves the first session as it was.");
    return update();
  }),
  share: async () => {
    const done = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
    if (done) messages.toast("Link copied.");
    else messages.toast("This browser lets no page copy: take the link from the address bar.");
  },
  without: (word) => {
    const others = state.without.filter((one) => one !== word);
    go({ without: others.length < state.without.length ? others : [...others, word] });
    attempt(update);
  },
  filter: (field, value) => {
    const others = state.filters.filter((one) => one.field !== field || one.value !== value);
    filters(others.length < state.filters.length ? others : [...others, { field, value }]);
  },
  weigh: (weight) => {
    go({ alpha: weight }, { replace: true });
    attempt(update);
  },
  close: () => toggle(false),
};

const texts = (value) => typeof value === "string" ? [value] : value && typeof value === "object" ? Object.values(value).flatMap(texts) : [];

/** The texts of a field, in lists and inner objects too; a name with dots may be a key as it is. */
function textsOf(value, field) {
  if (Array.isArray(value)) return value.flatMap((one) => textsOf(one, field));
  return Object.entries(Object(value)).flatMap(([key, inner]) => key === field ? texts(inner) : field.startsWith(`${key}.`) ? textsOf(inner, field.slice(key.length + 1)) : []);
}

/** The texts of a document that are searched, one below another, without the title above them; of others all texts. */
function wholeText(source, title) {
  const fields = new Set([known.card.title, known.card.text, ...known.fields].filter(Boolean));
  const found = [...fields].flatMap((field) => textsOf(source, field)).filter((text) => text.trim() !== title);
  return (found.length ? found : texts(source)).join("\n\n");
}

function toggle(open) {
  if (state.drawer === open) return;
  go({ drawer: open }, { replace: true });
  drawer.setOpen(open);
  columns.drawLines();
  if (open) {
    attempt(update); // for the facets, which are asked for only where they are seen
    $("drawer").querySelector(".close").focus();
  } else $("toggle").focus();
}

function choose(side) {
  document.body.dataset.side = side;
  for (const button of $("tabs").children) button.setAttribute("aria-pressed", String(button.dataset.side === side));
}

/** What the text that is being typed may become, by the words and titles of the index. */
function complete() {
  clearTimeout(typing);
  typing = setTimeout(async () => {
    const text = $("query").value;
    if (!state.index || !text.trim()) return;
    // a search works without them
    const found = await call("GET", `v1/indices/${encodeURIComponent(state.index)}/suggestions?q=${encodeURIComponent(text.slice(0, 200))}`).catch(() => null);
    if (found && text === $("query").value) $("completions").replaceChildren(...found.suggestions.map((value) => element("option", { value })));
  }, 120);
}

drawer.build(act);
$("query").addEventListener("input", complete);
choose("right");
listen({ mark: act.mark, undo: () => session?.steps && act.undo(), close: () => state.drawer && toggle(false) });
$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  $("query").blur(); // so that keys are about the hits
  ask($("query").value);
});
$("index").addEventListener("change", () => {
  go({ index: $("index").value, page: 1, filters: [] });
  known = null;
  attempt(begin);
});
for (const side of ["left", "right"]) {
  $(`${side}-method`).addEventListener("change", (event) => {
    go({ [side]: event.target.value, page: 1 });
    paintMethods();
    attempt(update);
  });
}
$("tabs").addEventListener("click", (event) => event.target.dataset.side && choose(event.target.dataset.side));
$("compare").addEventListener("click", () => {
  go({ compare: !state.compare, left: "hybrid", right: "session" });
  paintCompare();
  paintMethods();
  attempt(update);
});
$("toggle").addEventListener("click", () => toggle(!state.drawer));
for (const [id, step] of [["previous", -1], ["next", 1]]) {
  $(id).addEventListener("click", () => turnTo(state.page + step));
}
$("home").addEventListener("click", (event) => {
  event.preventDefault();
  go({ query: "", page: 1, filters: [], session: "", without: [], drawer: false });
  session = null;
  paintForm();
  hideResults();
  $("query").focus();
});
addEventListener("popstate", () => {
  state = read(location.search, defaultIndex);
  columns.closeTexts();
  attempt(begin);
});
new ResizeObserver(columns.drawLines).observe($("columns"));
// not on a phone, whose keyboard would cover the page
if (!state.query && innerWidth > 760) $("query").focus();
attempt(begin);
