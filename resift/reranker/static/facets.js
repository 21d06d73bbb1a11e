// Facets beside the hits, and the filters of the address: values, or ranges of numbers and dates as [10,50), which is
// 10 and more and less than 50.

import { $, cut, element, shortName } from "./dom.js";

const FORM = /^\[([^,]*),([^,]*)\)$/;
const inWords = (from, to) => from === "" ? `below ${to}` : to === "" ? `${from} and more` : `${from} to ${to}`;

/** A filter's value as people read it. */
export function shownValue(value) {
  const [, from, to] = FORM.exec(value) ?? [];
  return from === undefined ? value : inWords(from, to);
}

export const named = ({ field, value }) => `${shortName(field)}: ${shownValue(value)}`;

/** The query clause of a filter. */
export function clause({ field, value }) {
  const [, from, to] = FORM.exec(value) ?? [];
  if (from === undefined) return { term: { [field]: value } };
  return { range: { [field]: { ...(from && { gte: limit(from) }), ...(to && { lt: limit(to) }) } } };
}

const limit = (text) => /^-?[\d.]+(e[-+]?\d+)?$/i.test(text) ? Number(text) : text;

/** Show the facets that a search counted, by field, and the filters that are chosen. */
export function show(counted, filters, toggle) {
  const chosen = new Set(filters.map(({ field, value }) => `${field}:${value}`));
  const row = (field, { value, from, to, count }) => {
    const said = value === undefined ? `[${from ?? ""},${to ?? ""})` : String(value);
    return element("button", { type: "button", "aria-pressed": String(chosen.has(`${field}:${said}`)), onclick: () => toggle(field, said) },
      element("span", { dir: "auto" }, cut(shownValue(said), 60)), element("span", { class: "hint" }, count.toLocaleString("en")));
  };
  const groups = Object.entries(counted).map(([field, values]) => [field, values.filter(({ count }) => count)]).filter(([, values]) => values.length > 1);
  $("facet-list").replaceChildren(...groups.map(([field, values]) => element("div", { class: "facet", role: "group", "aria-label": shortName(field) },
    element("p", { class: "hint" }, shortName(field)), values.map((one) => row(field, one)))));
  $("chosen").replaceChildren(...filters.map((one) => element("button", { type: "button", class: "pill", "aria-label": `Remove the filter ${named(one)}`, onclick: () => toggle(one.field, one.value) },
    element("span", { dir: "auto" }, named(one)), " ×")));
}
