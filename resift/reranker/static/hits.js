// Hits: cards, the explanation of each rank, and lines that connect the ranks of a hit in two columns.

import { $, cut, element, highlighted, plain, plural, shape, shortName, thumb } from "./dom.js";
import { SIZE, keyOf, titleOf } from "./state.js";

const still = matchMedia("(prefers-reduced-motion: reduce)");
const SIDES = ["left", "right"];
let linked = [], asked = "";

const list = (side) => $(side).querySelector(".hits");

export const cards = (side) => [...list(side).children].map((node) => node.card);

const all = () => SIDES.flatMap(cards);

export function clearHits() {
  for (const side of SIDES) list(side).replaceChildren();
  linked = [];
  drawLines();
}

/**
 * Show the hits of a search. `grades`: key of a document → grade; `learned`: words of the session (see sayableFirst()); `known`: the
 * description of the index (GET /v1/indices/{index}).
 */
export function showHits(found, grades, learned, known, act) {
  const focused = document.activeElement, held = focused?.closest(".card"), column = held?.parentNode;
  const at = held ? [...column.children].indexOf(held) : 0;
  const { index, query, page } = found.state, same = asked === (asked = [index, query, page].join("\n"));
  // Hits of another search are not animated.
  const before = new Map(same ? all().map(({ node }) => [node, node.getBoundingClientRect().top]) : []);
  for (const side of SIDES) draw(side, found, grades, known.card.title, act);
  link(found, grades, learned, known.vectors);
  if (held) {
    // If the focused document left the page, the document in its place gets the focus.
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
  // A node keeps the focus only if it is not inserted again.
  shown.forEach((node, at) => list(side).children[at] === node || list(side).insertBefore(node, list(side).children[at] ?? null));
}

/** Show how hits moved: arrows in the right column, new ranks in the left column, and pairs of hits to connect by lines. */
function link({ state, depth, base, right }, grades, learned, vectors) {
  const start = (state.page - 1) * SIZE, session = state.right === "session" && grades.size > 0;
  const told = learned.map((words) => words.filter((word) => !state.without.includes(word)));
  const now = new Map(right.hits.hits.map((hit, at) => [keyOf(hit), start + at + 1]));
  const others = new Map(cards("left").map((card) => [keyOf(card.hit), card]));
  linked = [];
  for (const card of cards("right")) {
    const key = keyOf(card.hit), rank = now.get(key), other = others.get(key);
    if (base && (session || state.compare)) explain(card, { base: base.get(key), rank, depth }, { grade: session ? grades.get(key) ?? 0 : 0, learned: session ? told : [[]], session, vectors });
    else explain(card, null);
    if (base && other) linked.push({ from: other, to: card, moved: base.get(key) - rank });
  }
  for (const [key, card] of others) {
    const rank = now.get(key);
    card.moved.className = "moved went";
    card.moved.textContent = rank === base.get(key) ? "same place" : rank ? `now ${rank}` : "now further down";
  }
}

/** Draw curves between the ranks of a hit in both columns. */
export function drawLines() {
  const svg = $("lines"), frame = svg.getBoundingClientRect(), half = frame.width / 2;
  const middle = ({ rank }) => rank.getBoundingClientRect().top + rank.offsetHeight / 2 - frame.top;
  svg.replaceChildren(...(half ? linked : []).map(({ from, to, moved }) => {
    const start = middle(from), end = middle(to);
    return shape("path", { d: `M0 ${start} C${half} ${start} ${half} ${end} ${frame.width} ${end}`, class: moved > 0 ? "up" : "" });
  }));
}

function animate(before) {
  if (still.matches || !before.size) return drawLines();
  // Lines are hidden while hits move.
  $("lines").replaceChildren();
  const moving = all().map(({ node }) => {
    const was = before.get(node), way = was - node.getBoundingClientRect().top;
    if (was === undefined) return node.animate({ opacity: [0, 1] }, 350).finished;
    return way && node.animate({ transform: [`translateY(${way}px)`, "none"] }, { duration: 450, easing: "cubic-bezier(.2,.7,.2,1)" }).finished;
  });
  return Promise.allSettled(moving).then(drawLines);
}

/** Show a document as judged, before the service has stored the judgement. */
export function press(key, grade) {
  for (const card of all()) if (keyOf(card.hit) === key) pressed(card, grade);
}

/** Create the card of a document in a column. `act` has the actions of its buttons: mark(hit, grade), read(card). */
function makeCard(hit, act) {
  const part = (tag, name) => element(tag, { class: name, dir: "auto" });
  const judging = (name, grade) => element("button", { class: "thumb", title: name, onclick: () => act.mark(card.hit, grade) }, thumb(grade));
  const card = {
    node: element("li", { class: "card", tabIndex: -1 }), hit, rank: part("span", "rank"), title: part("h3"), yes: judging("relevant", 1), no: judging("not relevant", -1),
    picture: element("span", { class: "picture", hidden: true }), facts: part("p", "facts"), snippet: part("p", "snippet"), moved: part("span", "moved"), why: part("p", "why"),
  };
  const reading = element("button", { class: "quiet read", onclick: () => act.read(card) }, "Read");
  card.body = element("div", { class: "body" }, card.facts, card.snippet, element("div", { class: "buttons" }, reading, card.moved, card.why));
  card.node.append(card.rank, card.title, element("span", { class: "thumbs" }, card.yes, card.no), card.picture, card.body);
  card.node.card = card;
  return card;
}

/** Show a hit, its rank in its column, and its grade on a card. */
function fill(card, hit, titleField, rank, grade) {
  card.hit = hit;
  card.node.dataset.id = hit._id;
  card.rank.textContent = rank;
  const { title, text, link, image, facts } = hit.resift.card, name = title || hit._id;
  card.facts.replaceChildren(...Object.entries(facts ?? {}).map(([field, value]) => element("span", { dir: "auto" }, element("span", { class: "soft" }, `${shortName(field)} `), plain(value))));
  card.title.replaceChildren(link ? element("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, name) : name);
  const fragments = Object.entries(hit.highlight ?? {}).filter(([field]) => field !== titleField).flatMap(([, found]) => found);
  card.snippet.replaceChildren(...(fragments.length ? fragments.slice(0, 2).flatMap((one, at) => [at ? " … " : "", ...highlighted(one)]) : [text === title ? "" : text]));
  const said = `relevant: ${cut(name, 80)}`;
  card.yes.setAttribute("aria-label", said);
  card.no.setAttribute("aria-label", `not ${said}`);
  card.node.className = `card ${grade > 0 ? "relevant" : grade < 0 ? "irrelevant" : ""}`;
  pressed(card, grade);
  // An image that failed to load stays hidden.
  if (card.image === image) return;
  card.image = image;
  card.picture.hidden = !image;
  card.picture.replaceChildren(...(image ? [element("img", { src: image, alt: "", loading: "lazy", referrerPolicy: "no-referrer", onerror: () => { card.picture.hidden = true; } })] : []));
}

function pressed(card, grade) {
  card.yes.setAttribute("aria-pressed", grade >= 1);
  card.no.setAttribute("aria-pressed", grade <= -1);
}

/** Show how far a card in the right column moved, and why. Shows nothing without `ranks`. */
function explain(card, ranks, { learned, ...how } = {}) {
  card.why.replaceChildren();
  card.moved.replaceChildren();
  if (!ranks) return;
  const found = places(ranks), shown = arrow(found);
  card.moved.className = `moved ${shown.kind}`;
  card.moved.replaceChildren(element("span", { "aria-hidden": "true" }, shown.text), element("span", { class: "unseen" }, shown.spoken));
  const { because } = card.hit.resift, words = shownWords(card, because ? because.words ?? learned[0] : learned.flat());
  const { text, like, end } = sentence(found, because && { ...because, title: titleOf(because) }, { ...how, words });
  card.why.replaceChildren(text, ...(like ? [element("q", { dir: "auto" }, cut(like, 90)), end] : []));
}

/**
 * Return up to three phrases of expansion words that occur on a card: of its title and facts first, in the order of the texts.
 * Phrases that an earlier phrase contains are left out.
 */
export function shownWords({ hit, title, snippet }, learned) {
  const text = [title.textContent, ...Object.values(hit.resift.card.facts ?? {}), snippet.textContent].join("\n").toLocaleLowerCase()
    .replace(/[\p{L}\p{N}]+/gu, (word) => learned.includes(word) ? word : "\n");
  return text.split(/[^\p{L}\p{N} ]+/u).map((one) => one.trim()).filter((one, at, all) => one && !all.slice(0, at).join().includes(one)).slice(0, 3);
}

export function showText(card, text) {
  hideText(card);
  const whole = element("div", { class: "whole", dir: "auto", tabIndex: 0, role: "region", "aria-label": "The whole document" }, text);
  card.snippet.hidden = true;
  card.snippet.after(whole);
  whole.focus({ preventScroll: true });
}

export function hideText(card) {
  card.body.querySelector(".whole")?.remove();
  card.snippet.hidden = false;
}

/** Return by how many ranks a hit moved up. `base`: its rank before, undefined if it was not among the first `depth` hits. */
export const places = ({ base, rank, depth }) => ({ moved: (base ?? depth + 1) - rank, isNew: !base });

/** Return the arrow of a hit: its text, the text for screen readers, and its CSS class. */
export function arrow({ moved, isNew }) {
  if (isNew) return { text: "new", spoken: "not among the first hits before", kind: "up" };
  if (!moved) return { text: "=", spoken: "same place", kind: "same" };
  const many = plural(Math.abs(moved), "place");
  return moved > 0 ? { text: `▲ ${moved}`, spoken: `up ${many}`, kind: "up" } : { text: `▼ ${-moved}`, spoken: `down ${many}`, kind: "down" };
}

const verb = (grade) => grade >= 1 ? "you marked" : grade > 0 ? "you opened" : grade <= -1 ? "you marked as not relevant" : "you passed over";

/**
 * Return the explanation of a hit's rank, as the parts of a sentence: `text`, the title of a similar judged document
 * (`like`, or null), and `end`.
 * `because`: the most similar judged document, mentioned only if its grade has the direction in which the hit moved;
 * `grade`: the hit's own grade; `words`: expansion words on its card; `vectors`: whether the index has vectors.
 */
export function sentence({ moved, isNew }, because, { grade, words, session, vectors = true }) {
  const said = (text, like = null, end = "") => ({ text, like, end });
  const list = words.length ? `: ${words.join(", ")}` : "";
  if (grade) return said(`You marked this as ${grade > 0 ? "" : "not "}relevant`);
  if (!moved) return said("");
  if (because && because.grade * moved > 0) {
    return moved > 0 ? said("More like ", because.title, because.grade < 1 ? `, which you opened${list}` : list) : said("Like ", because.title, `, which ${verb(because.grade)}`);
  }
  if (moved < 0) return said("Others moved ahead");
  if (session && (words.length || (isNew && !vectors))) return said(`Has words of what you marked${list}`);
  return said(vectors && (isNew || !session) ? "Closer to your query in meaning" : "Others fell behind");
}
