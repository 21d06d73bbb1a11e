// Everything around the hits: facets, the session's shelf, messages, and keyboard shortcuts.

import { marks, ownKey } from "./api.js";
import { $, cut, element, plural, shortName, thumb } from "./dom.js";
import { cards } from "./hits.js";
import { keyOf, named, shownValue, titleOf } from "./state.js";

/** Show the values of facets (field → values with counts), and the selected filters. */
export function showFacets(counted, filters, toggle) {
  const chosen = new Set(filters.map(({ field, value }) => `${field}:${value}`));
  const row = (field, { value, from, to, count }) => {
    const said = value === undefined ? `[${from ?? ""},${to ?? ""})` : String(value);
    return element("button", { "aria-pressed": chosen.has(`${field}:${said}`), onclick: () => toggle(field, said) },
      element("span", { dir: "auto" }, cut(shownValue(said), 60)), element("span", { class: "hint" }, count.toLocaleString("en")));
  };
  const groups = Object.entries(counted).map(([field, values]) => [field, values.filter(({ count }) => count)]).filter(([, values]) => values.length > 1);
  $("facet-list").replaceChildren(...groups.map(([field, values]) => element("div", { class: "facet", role: "group", "aria-label": shortName(field) },
    element("p", { class: "hint" }, shortName(field)), values.map((one) => row(field, one)))));
  $("chosen").replaceChildren(...filters.map((one) => element("button", { class: "pill", "aria-label": `Remove the filter ${named(one)}`, onclick: () => toggle(one.field, one.value) },
    element("span", { dir: "auto" }, named(one)), " ×")));
}

export function openShelf(open) {
  $("drawer").hidden = !open;
  document.body.classList.toggle("with-drawer", open);
  $("toggle").setAttribute("aria-expanded", open);
}

/** Show the session's marks and words. `words`: see sayableFirst(). */
export function showShelf(session, words, without, { vectors }, act) {
  showMarks(session, act);
  showWords(words, without, act);
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
  $("marks").replaceChildren(...items);
  $("unmarked").hidden = items.length > 0;
  $("tools").hidden = !session;
  $("undo").disabled = !session?.steps;
}

function showWords([sayable, others], without, act) {
  $("words").hidden = !sayable.length;
  const chip = (word) => {
    const out = without.includes(word), says = `${out ? "Include again" : "Leave out"}: ${word}`;
    return element("button", { class: out ? "pill out" : "pill", title: says, "aria-label": says, onclick: () => act.without(word) }, element("span", { dir: "auto" }, word), out ? " ↺" : " ×");
  };
  $("words").children[1].replaceChildren(...[...new Set([...sayable, ...without])].map(chip));
  $("more").lastElementChild.replaceChildren(...others.filter((word) => !without.includes(word)).map(chip));
  $("more").hidden = !others.length;
}

let polling = null, timer = null;

const button = (name, work, kind) => element("button", { class: kind, dir: "auto", onclick: work }, name);
const hint = (text) => element("p", { class: "hint" }, text);

function say(title, text, ...more) {
  $("message").className = "";
  $("message").setAttribute("role", "status");
  $("message").replaceChildren(element("h2", {}, title), element("p", { dir: "auto" }, text), ...more);
  $("message").hidden = false;
}

export function sayEmpty({ index, query, filters }, { examples, vectors }, again, unfilter) {
  const within = filters.map(named).join(", "), tried = examples.filter((one) => one !== query).map((one) => button(one, () => again(one), "pill"));
  say("Nothing found", `No document of ${index}${within && ` with ${within}`} contains these words.${vectors ? "" : " The index has no vectors, so only these words match. Try others."}`,
    ...(within ? [button("Search without the filters", unfilter)] : tried.length ? [hint("Queries with results:"), element("div", { class: "pills" }, tried)] : []));
}

export const sayBeyond = (page, found, first) => say(`There is no page ${page}`, `The search now finds ${found}.`, button("To the first page", first));

export const sayStopped = (retry) => say("Stopped", "The search took longer than usual.", button("Search again", retry));

export function sayError({ message, expected, code }, retry) {
  say("That did not work", message, ...(expected ? [element("p", {}, "Expected: ", element("code", {}, expected))] : []), hint(`Code: ${code ?? "internal_error"}`), button("Try again", retry));
  $("message").className = "error";
  $("message").setAttribute("role", "alert");
}

export const sayNoIndex = () => say("No index yet", "Index some documents, and reload this page:", element("pre", {}, "resift index docs.jsonl --index my-docs"));

/** The service does not answer: show a notice, and check every two seconds whether it is back. */
export function sayOffline(retry) {
  $("retry").onclick = retry;
  $("offline").hidden = false;
  polling ??= setInterval(() => fetch("healthz", { signal: AbortSignal.timeout(3000) }).then((answer) => answer.ok && retry(), () => undefined), 2000);
}

export function hideOffer() {
  $("offer").hidden = true;
}

/** Ask whether to use the session of a link. `adopt` and `decline` are the actions of the two buttons. */
export function offerSession(adopt, decline) {
  for (const [id, work] of Object.entries({ adopt, decline })) {
    $(id).onclick = () => {
      hideOffer();
      work();
    };
  }
  $("offer").hidden = false;
}

export function sayOnline() {
  $("offline").hidden = true;
  clearInterval(polling);
  polling = null;
}

/** Show a message for a few seconds. `work` is the action of its button. */
export function toast(text, work, name = "Undo") {
  $("toast").replaceChildren(text, ...(work ? [button(name, () => {
    hideToast();
    work();
  })] : []));
  $("toast").classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(hideToast, work ? 8000 : 4000);
}

export const hideToast = () => $("toast").classList.remove("shown");

export function askKey(reason, go) {
  $("reason").textContent = `${reason[0].toUpperCase()}${reason.slice(1)}. The key stays in this tab.`;
  $("key").value = "";
  $("key-form").onsubmit = () => {
    ownKey($("key").value.trim());
    go();
  };
  if (!$("dialog").open) $("dialog").showModal();
}

export function listen({ mark, undo, close }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("dialog").open) return;
    if (event.key === "Escape") {
      if (document.activeElement === $("query")) $("query").blur();
      else close();
      return;
    }
    if (event.target.matches?.("input, textarea, select")) return;
    const shown = cards($("left").contains(document.activeElement) ? "left" : "right");
    const at = shown.findIndex((card) => card.node.contains(document.activeElement));
    const steps = { j: 1, k: -1 }, grades = { y: 1, n: -1 };
    if (event.key in steps && shown.length) {
      const next = shown[Math.min(shown.length - 1, Math.max(0, at < 0 ? 0 : at + steps[event.key]))];
      next.node.focus({ preventScroll: true });
      next.node.scrollIntoView({ block: "nearest" });
    } else if (event.key in grades && at >= 0) mark(shown[at].hit, grades[event.key]);
    else if (event.key === "u") undo();
    else if (event.key === "/") $("query").select();
    else return;
    event.preventDefault();
  });
}
