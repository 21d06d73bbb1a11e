// Functions that create elements. The contents of documents are only inserted as text, and never parsed as HTML.

export const $ = (id) => document.getElementById(id);

/** Create an element with properties (except null and undefined ones) and children. Strings become text nodes. */
export function element(tag, properties, ...children) {
  const node = document.createElement(tag);
  if (tag === "button") node.type = tag;
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name in node && !name.startsWith("aria")) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat());
  return node;
}

/** Create an SVG element. */
export function shape(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const HAND = "M7 10v10H3.5V10H7zm0 .5 4-7.5c1.6 0 2.5 1 2.5 2.4V9h5.2c1.3 0 2.2 1.2 1.9 2.4l-1.7 6.9c-.2 1-1.1 1.7-2.1 1.7H10l-3-1.3";

/** Create the icon of a thumb: down if the grade is negative, else up. */
export function thumb(grade) {
  return shape("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, shape("path", { d: HAND, ...(grade < 0 && { transform: "rotate(180 12 12)" }) }));
}

const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'", nbsp: " " };
const unescaped = (text) => text.replace(/&(?:#(?:x([\da-f]{1,5})|(\d{1,6}))|([a-z]{2,4}));/gi, (one, hex, number, name) =>
  name ? ENTITIES[name.toLowerCase()] ?? one : String.fromCodePoint(hex ? parseInt(hex, 16) : number));

// HTML tags in documents. Other text between < and > is kept. The expressions of this file take linear time.
const NAME = "(?:[abipqsu]|[bh]r|blockquote|center|code|d[dlt]|div|em|font|h\\d|i?frame|img|li|[ou]l|section|small|span|strong|su[bp]|t[dhr]|table|tbody|thead)";
const TAG = new RegExp(`<(script|style)\\b.*?(?:</\\1>|$)|<!--.*?(?:-->|$)|</?${NAME}(?:[\\s/][^<>]*)?(?:>|$)|^(?=[^<>]*["'/]>)[^<>]*?=["'][^<>]+>`, "gis");
// Inline tags, which do not separate words.
const WITHIN = /^<\/?(?:[abiqsu]|em|font|small|span|strong|su[bp])\b/i;

/** Remove HTML tags from a text, by regular expressions only. The last tag may be incomplete. */
export const plain = (text) => unescaped(text.replace(TAG, (tag) => WITHIN.test(tag) ? "" : " "));

/** Return the engine's highlight as nodes. Each part is cut, because the engine does not cut texts without spaces. */
export function highlighted(fragment) {
  // The tags <em> are replaced by private characters, which are removed within tags of the document.
  const text = unescaped(fragment.replace(/<(\/?)em>/g, (_, end) => end ? "\ue001" : "\ue000")).replace(/<[^<>]*>/g, (tag) => tag.replace(/[\ue000\ue001]/g, ""));
  return plain(text).split(/\ue000([^\ue000\ue001]*)\ue001/).map((part, at) => at % 2 ? element("mark", {}, cut(part, 200)) : cut(part, 200));
}

/** Cut a text to a maximum number of characters. */
export function cut(text, most) {
  if (text.length <= most) return text;
  return `${text.slice(0, most).replace(/[\ud800-\udbff]$/, "").trimEnd()}…`;
}

export const shortName = (field) => field.replace(/\.keyword$/, "");

export const plural = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
