// Making elements. What documents hold is only ever set as text; nothing here parses HTML.

export const $ = (id) => document.getElementById(id);

/** An element with properties and children: strings become text, and null and undefined are left out. */
export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name in node && name !== "list" && !name.startsWith("aria")) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
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

const ENTITIES = { lt: "<", gt: ">", amp: "&", quot: '"', apos: "'" };

function unescaped(text) {
  return text.replace(/&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z]+));/gi, (whole, hex, decimal, name) => {
    if (name) return ENTITIES[name] ?? whole;
    const point = hex ? parseInt(hex, 16) : Number(decimal);
    return point <= 0x10ffff ? String.fromCodePoint(point) : whole;
  });
}

/** A highlight of the engine as nodes: its text, and what stands between <em> tags as marks. */
export function highlighted(fragment) {
  const parts = fragment.split(/<em>(.*?)<\/em>/s);
  return parts.map((part, at) => at % 2 ? element("mark", {}, unescaped(part)) : unescaped(part));
}

/** A text of at most so many characters, cut between two of them and never within one. */
export function cut(text, most) {
  if (text.length <= most) return text;
  return `${text.slice(0, most).replace(/[\ud800-\udbff]$/, "").trimEnd()}…`;
}

/** What people call a field. */
export const shortName = (field) => field.replace(/\.keyword$/, "");

export const plural = (number, one, many = `${one}s`) => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
