// Facets beside the hits, and the filters of the address: values, or ranges of numbers and dates as [10,50), which is
// 10 and more and less than 50.

import { $, cut, element, shortName } from "./dom.js";

const FORM = /^\[([^,]*),([^,]*)\)$/;

/** A filter's value as people read it; ranges of dates begin with a month or a year. */
export function shownValue(value) {
  const [, ...ends] = FORM.exec(value) ?? [];
  if (!ends.length) return value;
  const [from, to] = ends.map((one) => one.replace(/^(\d{4}-\d\d)-01.*/, "$1").replace(/^(\d{4})-01$/, "$1")), dated = from + to !== ends.join("");
  if (!from) return `${dated ? "before" : "below"} ${to}`;
  return to ? `${from} to ${to}` : `${from} and ${dated ? "later" : "more"}`;
}

export const named = ({ field, value }) => `${shortName(field)}: ${shownValue(value)}`;

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
    return element("button", { "aria-pressed": String(chosen.has(`${field}:${said}`)), onclick: () => toggle(field, said) },
      element("span", { dir: "auto" }, cut(shownValue(said), 60)), element("span", { class: "hint" }, count.toLocaleString("en")));
  };
  const groups = Object.entries(counted).map(([field, values]) => [field, values.filter(({ count }) => count)]).filter(([, values]) => values.length > 1);
  $("facet-list").replaceChildren(...groups.map(([field, values]) => element("div", { class: "facet", role: "group", "aria-label": shortName(field) },
    element("p", { class: "hint" }, shortName(field)), values.map((one) => row(field, one)))));
  $("chosen").replaceChildren(...filters.map((one) => element("button", { class: "pill", "aria-label": `Remove the filter ${named(one)}`, onclick: () => toggle(one.field, one.value) },
    element("span", { dir: "auto" }, named(one)), " ×")));
}
