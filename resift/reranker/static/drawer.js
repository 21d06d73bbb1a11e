// The shelf: what the session looks for, as chips that can be taken out. On a phone a sheet from below.

import { marks } from "./api.js";
import { $, cut, element, plural, thumb } from "./dom.js";
import { keyOf, titleOf } from "./searching.js";

export function setOpen(open) {
  $("drawer").hidden = !open;
  document.body.classList.toggle("with-drawer", open);
  $("toggle").setAttribute("aria-expanded", String(open));
}

export function show(session, without, { vectors }, act) {
  showMarks(session, act);
  showWords(session?.learned?.asked, without, act);
  $("bare").hidden = vectors;
}

const sign = (grade) => grade >= 1 ? [thumb(1), "relevant"] : grade > 0 ? ["○", "opened"] : grade <= -1 ? [thumb(-1), "not relevant"] : ["·", "passed over"];

function showMarks(session, act) {
  const counting = marks(session);
  $("toggle").textContent = counting.length ? `Session · ${plural(counting.length, "mark")}` : "Session";
  const told = new Map((session?.learned?.because ?? []).map((one) => [keyOf(one), titleOf(one)]));
  const items = counting.map((one) => {
    const name = told.get(keyOf(one)) ?? one.document, [symbol, spoken] = sign(one.grade);
    return element("li", one.grade < 0 ? { class: "away" } : {}, element("span", { class: "sign", "aria-hidden": "true" }, symbol), element("span", { class: "unseen" }, spoken),
      element("span", { class: "what", dir: "auto" }, cut(name, 200)),
      element("button", { class: "quiet", "aria-label": `Take back: ${cut(name, 80)}`, onclick: () => act.mark(one, one.grade) }, "×"));
  });
  const button = (name, work, disabled) => element("button", { disabled, onclick: work }, name);
  $("marks").replaceChildren(items.length ? element("ul", { class: "marks" }, items) : element("p", { class: "hint" }, "Nothing marked yet. Thumbs move your own searches, and nobody else’s."),
    ...(session ? [element("div", { class: "tools" }, button("Undo", act.undo, !session.steps), button("Forget all", act.forget))] : []));
}

function showWords(asked, without, act) {
  $("words").hidden = !asked;
  const chip = (word) => {
    const out = without.includes(word), says = `${out ? "Look for it again" : "Leave out"}: ${word}`;
    return element("button", { class: out ? "pill out" : "pill", title: says, "aria-label": says, onclick: () => act.without(word) }, element("span", { dir: "auto" }, word), out ? " ↺" : " ×");
  };
  $("words").children[1].replaceChildren(...[...new Set([...asked ?? [], ...without])].map(chip));
}
