// What the page says in place of hits: nothing found, an error, nobody there; and the key that a service asks for.

import { $, element, shortName } from "./dom.js";
import { setKey } from "./api.js";
import { shownValue } from "./ranges.js";

let polling = null, timer = null;

export function clearMessage() {
  $("message").hidden = true;
}

function message(kind, title, ...children) {
  $("message").className = kind;
  $("message").setAttribute("role", kind === "error" ? "alert" : "status");
  $("message").replaceChildren(element("h2", {}, title), ...children);
  $("message").hidden = false;
}

/** Nothing was found. `again` is called with another query, `unfilter` without the filters. */
export function sayEmpty(state, examples, again, unfilter) {
  const tips = [], within = state.filters.map(({ field, value }) => `${shortName(field)}: ${shownValue(value)}`).join(", ");
  if (within) tips.push(element("button", { type: "button", onclick: unfilter }, "Search without the filters"));
  const tried = examples.filter((one) => one !== state.query).map((one) => element("button", { type: "button", class: "pill", dir: "auto", onclick: () => again(one) }, one));
  message("empty", "Nothing found", element("p", { dir: "auto" }, `No document of ${state.index}${within && ` with ${within}`} has these words.`), ...tips, ...(tried.length ? [element("p", { class: "hint" }, "Queries that find something:"), element("div", { class: "pills" }, tried)] : []));
}

/** There are hits, but none on this page. `first` is called to go to the first one. */
export function sayBeyond(page, found, first) {
  message("empty", `There is no page ${page}`, element("p", {}, `The search finds ${found} now.`), element("button", { type: "button", onclick: first }, "To the first page"));
}

/** What went wrong with a request: the service's own words and its stable code. */
export function sayError(error, retry) {
  const expected = error.expected ? [element("p", {}, "Expected: ", element("code", {}, error.expected))] : [];
  message("error", "That did not work", element("p", {}, error.message), ...expected,
    element("p", { class: "hint" }, `Code: ${error.code ?? "internal_error"}`), element("button", { type: "button", onclick: retry }, "Try again"));
}

/** There is no index to be searched. */
export function sayNoIndex() {
  message("empty", "No index yet", element("p", {}, "Index some documents, and reload this page:"), element("pre", {}, "resift index docs.jsonl --index my-docs"));
}

/** Nobody answers. What is shown stays; every few seconds it is tried whether somebody is back. */
export function sayOffline(retry) {
  $("offline").replaceChildren("The service does not answer. What you see is from before, and what you mark now is not noted; the page goes on by itself as soon as it is back. ", element("button", { type: "button", onclick: retry }, "Try again"));
  $("offline").hidden = false;
  polling ??= setInterval(() => fetch("healthz", { signal: AbortSignal.timeout(3000) }).then((answer) => answer.ok && retry(), () => undefined), 2000);
}

export function sayOnline() {
  $("offline").hidden = true;
  clearInterval(polling);
  polling = null;
}

/** A short word that goes by itself; `undo` is what its button does. */
export function toast(text, undo) {
  const button = undo ? [element("button", { type: "button", onclick: () => {
    $("toast").classList.remove("shown");
    undo();
  } }, "Undo")] : [];
  $("toast").replaceChildren(text, ...button);
  $("toast").classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(() => $("toast").classList.remove("shown"), undo ? 8000 : 4000);
}

/** Ask for an API key, and go on with it. */
export function askKey(reason, go) {
  const input = element("input", { type: "password", id: "key", autocomplete: "off", required: true });
  const form = element("form", { method: "dialog", onsubmit: () => {
    setKey(input.value.trim());
    go();
  } }, element("label", { for: "key" }, "API key"), input, element("div", { class: "ends" }, element("button", { class: "primary" }, "Go on")));
  $("dialog").replaceChildren(element("h2", { id: "dialog-title" }, "This service asks for a key"), element("p", { class: "hint" }, `${reason[0].toUpperCase()}${reason.slice(1)}. The key stays in this tab.`), form);
  if (!$("dialog").open) $("dialog").showModal();
}
