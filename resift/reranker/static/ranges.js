// Ranges of numbers and dates as filters of the address, [10,50) for 10 and more and less than 50, and in words.

const FORM = /^\[([^,]*),([^,]*)\)$/;

export const asFilter = (from, to) => `[${from ?? ""},${to ?? ""})`;

export const inWords = (from, to) => (from ?? "") === "" ? `below ${to}` : (to ?? "") === "" ? `${from} and more` : `${from} to ${to}`;

/** A filter's value as people read it. */
export function shownValue(value) {
  const [, from, to] = FORM.exec(value) ?? [];
  return from === undefined ? value : inWords(from, to);
}

/** The query clause of a filter. */
export function clause({ field, value }) {
  const [, from, to] = FORM.exec(value) ?? [];
  if (from === undefined) return { term: { [field]: value } };
  return { range: { [field]: { ...(from && { gte: limit(from) }), ...(to && { lt: limit(to) }) } } };
}

const limit = (text) => /^-?[\d.]+(e[-+]?\d+)?$/i.test(text) ? Number(text) : text;
