// What the page says in place of hits, and the key that a service asks for.

import { $, element } from "./dom.js";
import { setKey } from "./api.js";
import { named } from "./facets.js";

let polling = null, timer = null;

const button = (name, work, kind) => element("button", { class: kind, dir: "auto", onclick: work }, name);
const hint = (text) => element("p", { class: "hint" }, text);

export function say(title, text, ...more) {
  $("message").className = "";
  $("message").setAttribute("role", "status");
  $("message").replaceChildren(element("h2", {}, title), element("p", { dir: "auto" }, text), ...more);
  $("message").hidden = false;
}

export function sayEmpty({ index, query, filters }, { examples, vectors }, again, unfilter) {
  const within = filters.map(named).join(", "), tried = examples.filter((one) => one !== query).map((one) => button(one, () => again(one), "pill"));
  say("Nothing found", `No document of ${index}${within && ` with ${within}`} has these words.${vectors ? "" : " Words alone are searched: try others."}`,
    ...(within ? [button("Search without the filters", unfilter)] : tried.length ? [hint("Queries that find something:"), element("div", { class: "pills" }, tried)] : []));
}

export const sayBeyond = (page, found, first) => say(`There is no page ${page}`, `The search finds ${found} now.`, button("To the first page", first));

export const sayStopped = (retry) => say("Stopped", "The search took longer than usual.", button("Search again", retry));

export function sayError({ message, expected, code }, retry) {
  say("That did not work", message, ...(expected ? [element("p", {}, "Expected: ", element("code", {}, expected))] : []), hint(`Code: ${code ?? "internal_error"}`), button("Try again", retry));
  $("message").className = "error";
  $("message").setAttribute("role", "alert");
}

export const sayNoIndex = () => say("No index yet", "Index some documents, and reload this page:", element("pre", {}, "resift index docs.jsonl --index my-docs"));

/** Nobody answers. What is shown stays; every few seconds it is tried whether somebody is back. */
export function sayOffline(retry) {
  $("retry").onclick = retry;
  $("offline").hidden = false;
  polling ??= setInterval(() => fetch("healthz", { signal: AbortSignal.timeout(3000) }).then((answer) => answer.ok && retry(), () => undefined), 2000);
}

export function sayOnline() {
  $("offline").hidden = true;
  clearInterval(polling);
  polling = null;
}

/** A short word that goes by itself; `work` is what its button does. */
export function toast(text, work, name = "Undo") {
  const hide = () => $("toast").classList.remove("shown");
  $("toast").replaceChildren(text, ...(work ? [button(name, () => {
    hide();
    work();
  })] : []));
  $("toast").classList.add("shown");
  clearTimeout(timer);
  timer = setTimeout(hide, work ? 8000 : 4000);
}

export function askKey(reason, go) {
  $("reason").textContent = `${reason[0].toUpperCase()}${reason.slice(1)}. The key stays in this tab.`;
  $("key").value = "";
  $("key-form").onsubmit = () => {
    setKey($("key").value.trim());
    go();
  };
  if (!$("dialog").open) $("dialog").showModal();
}
