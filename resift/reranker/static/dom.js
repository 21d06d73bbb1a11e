// Making elements. What documents hold is only ever set as text; nothing here parses HTML.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children: strings become text, and null and undefined are left out. */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
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

/** An element of SVG with attributes and children. */
export function shape(tag, attributes = {}, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const HAND = "M7 10v10H3.5V10H7zm0 .5 4-7.5c1.6 0 2.5 1 2.5 2.4V9h5.2c1.3 0 2.2 1.2 1.9 2.4l-1.7 6.9c-.2 1-1.1 1.7-2.1 1.7H10l-3-1.3";

/** A thumb, up for a grade above 0 and down for one below. */
export function thumb(grade) {
  const turned = grade < 0 ? { transform: "rotate(180 12 12)" } : {};
  return shape("svg", { viewBox: "0 0 24 24", class: "icon", "aria-hidden": "true" }, shape("path", { d: HAND, ...turned }));
}

// as Lucene and Python escape HTML
const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#x27;": "'", "&#x2F;": "/" };
const unescaped = (text) => text.replace(/&(?:lt|gt|amp|quot|#x27|#x2F);/g, (one) => ENTITIES[one]);

/** A highlight of the engine as nodes: its text, and what stands between <em> tags as marks. Engines cut between words, which some texts have none of. */
export function highlighted(fragment) {
  const parts = fragment.split(/<em>(.*?)<\/em>/s).map((part) => cut(unescaped(part), 200));
  return parts.map((part, at) => at % 2 ? element("mark", {}, part) : part);
}

/** A text of at most so many characters, cut between two of them and never within one. */
export function cut(text, most) {
  if (text.length <= most) return text;
  return `${text.slice(0, most).replace(/[\ud800-\udbff]$/, "").trimEnd()}…`;
}

/** What people call a field. */
export const shortName = (field) => field.replace(/\.keyword$/, "");

export const plural = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
