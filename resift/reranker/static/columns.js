// The two columns: cards that move, and lines between the places of a hit.

import { $, shape } from "./dom.js";
import { explain, fill, makeCard, point, press as pressed } from "./cards.js";
import { SIZE, keyOf } from "./searching.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const SIDES = ["left", "right"];
let linked = [], asked = "";

const list = (side) => $(side).querySelector(".hits");

export const cards = (side) => [...list(side).children].map((node) => node.card);

const all = () => SIDES.flatMap(cards);

export function clear() {
  for (const side of SIDES) list(side).replaceChildren();
  linked = [];
  drawLines();
}

/** Show what a search found. `grades`: how documents are marked, by their keys; `learned`: words of the session; `known`: how the index is shown. */
export function show(found, grades, learned, known, act) {
  const focused = document.activeElement, held = focused?.closest(".card"), column = held?.parentNode;
  const at = held ? [...column.children].indexOf(held) : 0;
  const { index, query, page } = found.state, same = asked === (asked = [index, query, page].join("\n"));
  const before = new Map(same ? all().map(({ node }) => [node, node.getBoundingClientRect().top]) : []); // another search's hits do not move here
  for (const side of SIDES) draw(side, found, grades, known.card.title, act);
  link(found, grades, learned, known.vectors);
  if (held) {
    // a document that left the page leaves the focus to the one in its place
    const next = held.isConnected ? focused : column.children[Math.min(at, column.children.length - 1)];
    if (next && next !== document.activeElement) {
      next.focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest" });
    }
  }
  animate(before);
}

function draw(side, found, grades, titleField, act) {
  const known = new Map(cards(side).map((card) => [keyOf(card.hit), card])), start = (found.state.page - 1) * SIZE;
  const shown = found[side].hits.hits.map((hit, at) => {
    const key = keyOf(hit), card = known.get(key) ?? makeCard(hit, act);
    known.delete(key);
    fill(card, hit, titleField, start + at + 1, grades.get(key) ?? 0);
    return card.node;
  });
  for (const { node } of known.values()) node.remove();
  // a node that stays where it is keeps the focus
  shown.forEach((node, at) => list(side).children[at] === node || list(side).insertBefore(node, list(side).children[at] ?? null));
}

/** The arrows on the right, where hits went on the left, and the pairs that a line joins. */
function link({ state, depth, base, right }, grades, learned, vectors) {
  const start = (state.page - 1) * SIZE, session = state.right === "session" && grades.size > 0;
  const told = learned.filter((word) => !state.without.includes(word) && !state.query.toLowerCase().includes(word.toLowerCase()));
  const now = new Map(right.hits.hits.map((hit, at) => [keyOf(hit), start + at + 1]));
  const others = new Map(cards("left").map((card) => [keyOf(card.hit), card]));
  linked = [];
  for (const card of cards("right")) {
    const key = keyOf(card.hit), rank = now.get(key), other = others.get(key);
    if (base && (session || state.compare)) explain(card, { base: base.get(key), rank, depth }, { grade: session ? grades.get(key) ?? 0 : 0, learned: session ? told : [], session, vectors });
    else explain(card, null);
    if (base && other) linked.push({ from: other, to: card, moved: base.get(key) - rank });
  }
  for (const [key, card] of others) {
    const rank = now.get(key);
    point(card, rank === base.get(key) ? "same place" : rank ? `now ${rank}` : "now further down");
  }
}

/** Curves from a hit's place on the left to that on the right. */
export function drawLines() {
  const svg = $("lines"), frame = svg.getBoundingClientRect(), half = frame.width / 2;
  const middle = ({ rank }) => rank.getBoundingClientRect().top + rank.offsetHeight / 2 - frame.top;
  svg.replaceChildren(...(half ? linked : []).map(({ from, to, moved }) => {
    const start = middle(from), end = middle(to);
    return shape("path", { d: `M0 ${start} C${half} ${start} ${half} ${end} ${frame.width} ${end}`, class: moved > 0 ? "up" : "" });
  }));
}

/** Let each card slide from where it was to where it is. */
function animate(before) {
  if (still.matches || !before.size) return drawLines();
  // lines join places, so there are none while hits move
  $("lines").replaceChildren();
  const moving = all().map(({ node }) => {
    const was = before.get(node), way = was - node.getBoundingClientRect().top;
    if (was === undefined) return node.animate({ opacity: [0, 1] }, 350).finished;
    return way && node.animate({ transform: [`translateY(${way}px)`, "none"] }, { duration: 450, easing: "cubic-bezier(.2,.7,.2,1)" }).finished;
  });
  Promise.allSettled(moving).then(drawLines);
  return undefined;
}

export function press(key, grade) {
  for (const card of all()) if (keyOf(card.hit) === key) pressed(card, grade);
}
