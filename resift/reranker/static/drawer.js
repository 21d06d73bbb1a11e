// The drawer: what the session holds, what it learned, and the settings of the search. On a phone a sheet from below.

import { $, cut, element, shortName, thumb } from "./dom.js";
import { titleOf } from "./searching.js";
import { asFilter, inWords } from "./ranges.js";

const PARTS = { rewrite: "session and words", engine: "search engine", rest: "reasons and cards", network: "network and page" };

let marks, words, weight, facets, took, tools;

/** Build the drawer once. `act` has what its controls do. */
export function build(act) {
  marks = element("section");
  words = element("section");
  weight = makeWeight(act);
  facets = element("section");
  took = element("section");
  tools = makeTools(act);
  const close = element("button", { type: "button", class: "quiet close", "aria-label": "Close the drawer", onclick: act.close }, "×");
  $("drawer").append(element("div", { class: "handle", "aria-hidden": "true" }), element("div", { class: "top" }, element("h2", {}, "This session"), close), marks, words, weight.node, facets, took, tools);
}

function makeWeight(act) {
  const input = element("input", { type: "range", min: 0, max: 1, step: 0.05, id: "alpha" });
  const reset = element("button", { type: "button", class: "quiet", onclick: () => act.weigh(null) }, "Reset");
  const says = () => input.setAttribute("aria-valuetext", `${Math.round(input.value * 100)} % meaning`);
  input.addEventListener("input", () => {
    says();
    act.weigh(Number(input.value));
  });
  const ends = element("div", { class: "between", "aria-hidden": "true" }, element("span", {}, "words"), element("span", {}, "meaning"));
  const node = element("section", {}, element("div", { class: "between" }, element("h3", {}, element("label", { for: "alpha" }, "Words or meaning")), reset), input, ends);
  return { node, input, reset, says };
}

function makeTools(act) {
  const button = (name, work) => element("button", { type: "button", onclick: work }, name);
  return element("section", {},
    element("h3", {}, "Take it along"),
    element("div", { class: "tools" }, button("New", act.fresh), button("Duplicate", act.duplicate), button("Copy link", act.share)),
    element("p", { class: "hint" }, "Whoever opens the link goes on with this session."),
    element("div", { class: "tools", role: "group", "aria-label": "Export" }, button("qrels", act.qrels), button("UBI", act.ubi), button("cURL", act.curl)));
}

/** Show or hide the drawer. */
export function setOpen(open) {
  $("drawer").hidden = !open;
  document.body.classList.toggle("with-drawer", open);
  $("toggle").setAttribute("aria-expanded", String(open));
}

/** Show what is known: a session (null where nothing is marked), and the last search that was answered. */
export function show(session, found, state, alpha, act) {
  showMarks(session, act);
  showWords(session?.learned);
  if (document.activeElement !== weight.input) weight.input.value = state.alpha ?? alpha;
  weight.says();
  weight.reset.hidden = state.alpha === null;
  showFacets(found?.right.resift.facets, state, act);
  showTook(found?.took);
}

const sign = (grade) => grade >= 1 ? [thumb(1), "relevant"] : grade > 0 ? ["○", "opened"] : grade <= -1 ? [thumb(-1), "not relevant"] : ["·", "passed over"];

function showMarks(session, act) {
  const counting = (session?.judgements ?? []).filter((one) => one.counts);
  $("toggle-text").textContent = counting.length ? `Session · ${counting.length} ${counting.length === 1 ? "mark" : "marks"}` : "Session";
  const told = titles(session);
  const items = counting.map((one) => {
    const name = told.get(JSON.stringify([one.index, one.document])) ?? one.document, [symbol, spoken] = sign(one.grade);
    const drop = element("button", { type: "button", class: "quiet", "aria-label": `Take back: ${cut(name, 80)}`, onclick: () => act.drop(one) }, "×");
    return element("li", {}, element("span", { class: "sign", "aria-hidden": "true" }, symbol), element("span", { class: "unseen" }, spoken), element("span", { class: "what", dir: "auto", title: one.query ? `for “${one.query}”` : "" }, cut(name, 200)), drop);
  });
  const undo = element("button", { type: "button", disabled: !session?.steps, onclick: act.undo }, "Undo");
  const forget = element("button", { type: "button", onclick: act.forget }, "Forget all");
  marks.replaceChildren(element("h3", {}, "Marks"), items.length
    ? element("ul", { class: "marks" }, items)
    : element("p", { class: "hint" }, "Nothing yet. Mark hits with the thumbs: they move this session’s searches, and nobody else’s."),
  ...(session ? [element("div", { class: "tools" }, undo, forget)] : []));
}

const titles = (session) => new Map((session?.learned?.because ?? []).map((one) => [JSON.stringify([one.index, one.document]), titleOf(one)]));

function showWords(learned) {
  words.hidden = !learned;
  if (!learned) return;
  const list = (name, found, kind) => found.length ? [element("dt", {}, name), element("dd", { class: kind }, found.map((word) => element("span", { dir: "auto" }, word)))] : [];
  words.replaceChildren(element("h3", {}, "Words"), element("dl", {},
    ...list("also looked for", learned.asked, "gained"), ...list("nearer to", learned.towards, "gained"), ...list("further from", learned.away, "lost")));
}

function showFacets(found, state, act) {
  const chosen = (field, value) => state.filters.some((one) => one.field === field && one.value === value);
  const groups = Object.entries(found ?? {}).filter(([, values]) => values.length);
  facets.hidden = !groups.length;
  facets.replaceChildren(element("h3", {}, "Narrow down"), ...groups.map(([field, values]) => element("div", { class: "facet", role: "group", "aria-label": shortName(field) },
    element("p", {}, shortName(field)),
    ...values.filter(({ count }) => count).map(({ value, from, to, count }) => {
      const said = value === undefined ? asFilter(from, to) : String(value), name = value === undefined ? inWords(from, to) : cut(said, 60);
      return element("button", { type: "button", "aria-pressed": String(chosen(field, said)), onclick: () => act.filter(field, said) },
        element("span", { dir: "auto" }, name), element("span", { class: "count" }, String(count)));
    }))));
}

function showTook(parts) {
  took.hidden = !parts;
  if (!parts) return;
  const total = parts.reduce((sum, one) => sum + one.duration, 0);
  const bar = element("div", { class: "took", "aria-hidden": "true" });
  const rows = parts.map(({ name, duration }) => {
    const piece = element("span", { class: name });
    piece.style.flexGrow = String(Math.max(duration, total / 200));
    bar.append(piece);
    return element("div", { class: "between" }, element("dt", { class: name }, PARTS[name] ?? name), element("dd", {}, `${duration.toFixed(1)} ms`));
  });
  took.replaceChildren(element("h3", {}, `Time: ${total.toFixed(0)} ms`), bar, element("dl", { class: "parts" }, rows));
}
