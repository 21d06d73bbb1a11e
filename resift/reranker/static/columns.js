// The two columns: cards that move to their new places, and lines between the places of a hit.

import { $, shape } from "./dom.js";
import { explain, fill, hideText, makeCard, place, point, press as pressed } from "./cards.js";
import { NAMES, SIZE, keyOf } from "./searching.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const sides = { left: new Map(), right: new Map() };
let linked = [];

const list = (side) => $(side).querySelector(".hits");

/** The cards of a column in their order. */
export const cards = (side) => [...list(side).children].map((node) => [...sides[side].values()].find((card) => card.node === node)).filter(Boolean);

export function clear() {
  for (const side of Object.keys(sides)) {
    sides[side].clear();
    list(side).replaceChildren();
  }
  linked = [];
  drawLines();
}

/** Show what a search found. `grades` says how documents are marked, by their keys; `learned` are words of the session. */
export function show(found, grades, learned, titleField, act) {
  const focus = remembered();
  const before = positions();
  for (const side of Object.keys(sides)) draw(side, found, grades, titleField, act);
  link(found, grades, learned);
  refocus(focus);
  animate(before);
}

function draw(side, found, grades, titleField, act) {
  const known = sides[side], hits = found[side].hits.hits, start = (found.state.page - 1) * SIZE;
  const wanted = new Map(hits.map((hit) => [keyOf(hit), hit]));
  for (const [key, card] of known) {
    if (!wanted.has(key)) {
      card.node.remove();
      known.delete(key);
    }
  }
  hits.forEach((hit, at) => {
    const key = keyOf(hit);
    const card = known.get(key) ?? makeCard(hit, act);
    known.set(key, card);
    fill(card, hit, titleField);
    place(card, start + at + 1, grades.get(key) ?? 0);
    if (list(side).children[at] !== card.node) list(side).insertBefore(card.node, list(side).children[at] ?? null);
  });
}

/** The arrows on the right, where hits went on the left, and the pairs that a line joins. */
function link({ state, depth, base, right }, grades, learned) {
  const start = (state.page - 1) * SIZE, name = NAMES[state.left], session = state.right === "session" && grades.size > 0;
  const told = learned.filter((word) => !state.without.includes(word) && !state.query.toLowerCase().includes(word.toLowerCase()));
  const now = new Map(right.hits.hits.map((hit, at) => [keyOf(hit), start + at + 1]));
  linked = [];
  for (const [key, card] of sides.right) {
    const rank = now.get(key);
    if (!base || !(session || state.compare)) {
      explain(card, null);
      continue;
    }
    explain(card, { base: base.get(key), rank, depth }, name, { grade: session ? grades.get(key) ?? 0 : 0, learned: session ? told : [], session });
    const other = sides.left.get(key);
    if (other) linked.push({ from: other, to: card, moved: base.get(key) - rank });
  }
  for (const [key, card] of sides.left) {
    const rank = now.get(key), was = base?.get(key);
    point(card, rank === was ? "same place" : rank ? `now ${rank}` : state.page === 1 ? "now further down" : "now on another page");
  }
}

/** Curves from a hit's place on the left to that on the right. */
export function drawLines() {
  const svg = $("lines");
  const frame = svg.getBoundingClientRect();
  if (!frame.width || getComputedStyle(svg).display === "none") {
    svg.replaceChildren();
    return;
  }
  const middle = (card) => {
    const box = card.rank.getBoundingClientRect();
    return box.top + box.height / 2 - frame.top;
  };
  const paths = linked.map(({ from, to, moved }) => {
    const start = middle(from), end = middle(to), half = frame.width / 2;
    const path = shape("path", { d: `M0 ${start} C${half} ${start} ${half} ${end} ${frame.width} ${end}`, class: moved > 0 ? "up" : moved < 0 ? "down" : "same" });
    for (const card of [from, to]) {
      card.node.onpointerenter = () => emphasize(path, from, to, true);
      card.node.onpointerleave = () => emphasize(path, from, to, false);
    }
    return path;
  });
  svg.replaceChildren(...paths);
}

function emphasize(path, from, to, on) {
  for (const node of [path, from.node, to.node]) node.classList.toggle("linked", on);
}

function positions() {
  return new Map(Object.values(sides).flatMap((known) => [...known.values()].map((card) => [card.node, card.node.getBoundingClientRect().top])));
}

/** Let each card slide from where it was to where it is (first, last, invert, play). */
function animate(before) {
  if (still.matches || !before.size) return drawLines();
  // lines join places, so there are none while hits move
  $("lines").replaceChildren();
  const moving = [];
  for (const known of Object.values(sides)) {
    for (const { node } of known.values()) {
      const was = before.get(node), way = was === undefined ? null : was - node.getBoundingClientRect().top;
      if (way === null) moving.push(node.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 350 }).finished);
      else if (way) moving.push(node.animate([{ transform: `translateY(${way}px)` }, { transform: "none" }], { duration: 450, easing: "cubic-bezier(.2,.7,.2,1)" }).finished);
    }
  }
  Promise.allSettled(moving).then(drawLines);
  return undefined;
}

/** Which control of which card has the focus, to be found again when the card has moved. */
function remembered() {
  const active = document.activeElement;
  for (const [side, known] of Object.entries(sides)) {
    for (const [key, card] of known) {
      if (!card.node.contains(active)) continue;
      const part = Object.keys(card).find((name) => card[name] === active);
      return { side, key, part: part ?? "node", at: [...list(side).children].indexOf(card.node) };
    }
  }
  return null;
}

function refocus(focus) {
  if (!focus) return;
  const card = sides[focus.side].get(focus.key);
  // a document that left the page leaves the focus to the one in its place
  const next = card ? card[focus.part] : list(focus.side).children[Math.min(focus.at, list(focus.side).children.length - 1)];
  if (!next || next === document.activeElement) return;
  next.focus({ preventScroll: true });
  next.scrollIntoView({ block: "nearest" });
}

/** Show that a document is marked, wherever it stands. */
export function press(hit, grade) {
  for (const known of Object.values(sides)) {
    const card = known.get(keyOf(hit));
    if (card) pressed(card, grade);
  }
}

/** Close the texts that were opened for reading. */
export function closeTexts() {
  for (const known of Object.values(sides)) known.forEach(hideText);
}
