// The shelf: what the session looks for, as chips that can be taken out, and the settings of the search. On a phone a
// sheet from below.

import { $, cut, element, shortName, thumb } from "./dom.js";
import { titleOf } from "./searching.js";
import { asFilter, inWords } from "./ranges.js";

let marks, words, weight, facets, tools;

/** Build the drawer once. `act` has what its controls do. */
export function build(act) {
  marks = element("section");
  words = element("section");
  weight = makeWeight(act);
  facets = element("section");
  tools = makeTools(act);
  const close = element("button", { type: "button", class: "quiet close", "aria-label": "Close", onclick: act.close }, "×");
  $("drawer").append(element("div", { class: "handle", "aria-hidden": "true" }), element("div", { class: "top" }, element("h2", {}, "What you are looking for"), close), marks, words, facets, weight.node, tools);
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
    element("p", { class: "hint" }, "Whoever opens the link goes on with this session."));
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
  showWords(session?.learned, state.without, act);
  if (document.activeElement !== weight.input) weight.input.value = state.alpha ?? alpha;
  weight.says();
  weight.reset.hidden = state.alpha === null;
  showFacets(found?.right.resift.facets, state, act);
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
  marks.replaceChildren(items.length
    ? element("ul", { class: "marks" }, items)
    : element("p", { class: "hint" }, "Nothing marked yet. Thumbs move your own searches, and nobody else’s."),
  ...(session ? [element("div", { class: "tools" }, undo, forget)] : []));
}

const titles = (session) => new Map((session?.learned?.because ?? []).map((one) => [JSON.stringify([one.index, one.document]), titleOf(one)]));

function showWords(learned, without, act) {
  words.hidden = !learned;
  if (!learned) return;
  const chip = (word) => {
    const out = without.includes(word), says = `${out ? "Look for it again" : "Leave out"}: ${word}`;
    return element("button", { type: "button", class: out ? "pill out" : "pill", title: says, "aria-label": says, onclick: () => act.without(word) }, element("span", { dir: "auto" }, word), out ? " ↺" : " ×");
  };
  const asked = [...new Set([...learned.asked, ...without])].map(chip);
  const near = (name, found) => found.length ? [element("p", { class: "hint", dir: "auto" }, `${name}: ${found.join(", ")}`)] : [];
  words.replaceChildren(element("h3", {}, "Words"), element("div", { class: "pills" }, asked), ...near("nearer in meaning to", learned.towards), ...near("further from", learned.away));
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
