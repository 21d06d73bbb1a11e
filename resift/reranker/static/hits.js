// The hits: cards that move, why each stands where it stands, and lines between the places of a hit in two columns.

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

/** Show what a search found. `grades`: how documents are marked, by their keys; `learned`: words of the session; `known`: how the index is shown. */
export function showHits(found, grades, learned, known, act) {
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
    card.moved.className = "moved went";
    card.moved.textContent = rank === base.get(key) ? "same place" : rank ? `now ${rank}` : "now further down";
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

function animate(before) {
  if (still.matches || !before.size) return drawLines();
  // lines join places, so there are none while hits move
  $("lines").replaceChildren();
  const moving = all().map(({ node }) => {
    const was = before.get(node), way = was - node.getBoundingClientRect().top;
    if (was === undefined) return node.animate({ opacity: [0, 1] }, 350).finished;
    return way && node.animate({ transform: [`translateY(${way}px)`, "none"] }, { duration: 450, easing: "cubic-bezier(.2,.7,.2,1)" }).finished;
  });
  return Promise.allSettled(moving).then(drawLines);
}

export function press(key, grade) {
  for (const card of all()) if (keyOf(card.hit) === key) pressed(card, grade);
}

// Cards, each made once for a document and a column.

/** The card of a hit; `act` has what its buttons do: mark(hit, grade), read(card). */
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

/** What a hit shows, its rank in its column, and how it is marked. */
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
  if (card.image === image) return; // one that cannot be loaded stays hidden
  card.image = image;
  card.picture.hidden = !image;
  card.picture.replaceChildren(...(image ? [element("img", { src: image, alt: "", loading: "lazy", referrerPolicy: "no-referrer", onerror: () => { card.picture.hidden = true; } })] : []));
}

function pressed(card, grade) {
  card.yes.setAttribute("aria-pressed", String(grade >= 1));
  card.no.setAttribute("aria-pressed", String(grade <= -1));
}

/** The arrow of a card on the right, and what moved it in plain words; nothing of both where there are no `ranks`. */
function explain(card, ranks, { learned, ...how } = {}) {
  card.why.replaceChildren();
  card.moved.replaceChildren();
  if (!ranks) return;
  const found = places(ranks), shown = arrow(found);
  card.moved.className = `moved ${shown.kind}`;
  card.moved.replaceChildren(element("span", { "aria-hidden": "true" }, shown.text), element("span", { class: "unseen" }, shown.spoken));
  const { because } = card.hit.resift, words = shownWords(card, learned);
  const { text, like, end } = sentence(found, because && { ...because, title: titleOf(because) }, { ...how, words });
  card.why.replaceChildren(text, ...(like ? [element("q", { dir: "auto" }, cut(like, 90)), end] : []));
}

/** The first words of the session that a card shows. */
function shownWords({ title, facts, snippet }, learned) {
  const text = [title, facts, snippet].map((node) => node.textContent).join(" ").toLocaleLowerCase();
  const own = new Set(text.split(/[^\p{L}\p{N}]+/u));
  return learned.filter((word) => own.has(word.toLocaleLowerCase())).slice(0, 3);
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

/** How many places a hit won from its rank in the `base`, which is null or undefined beyond the first `depth`. */
export const places = ({ base, rank, depth }) => ({ moved: (base ?? depth + 1) - rank, isNew: !base });

/** The arrow beside a hit: a sign, what it says to people who do not see it, and its class. */
export function arrow({ moved, isNew }) {
  if (isNew) return { text: "new", spoken: "not among the first hits before", kind: "up" };
  if (!moved) return { text: "=", spoken: "same place", kind: "same" };
  const many = plural(Math.abs(moved), "place");
  return moved > 0 ? { text: `▲ ${moved}`, spoken: `up ${many}`, kind: "up" } : { text: `▼ ${-moved}`, spoken: `down ${many}`, kind: "down" };
}

const verb = (grade) => grade >= 1 ? "you marked" : grade > 0 ? "you opened" : grade <= -1 ? "you marked as not relevant" : "you passed over";

/**
 * What moved a hit: `text`, the title of a judged document that is `like` it or null, and what was done to that (`end`).
 * `because`: the judged document most like the hit, named only if it pulls the way that the hit went; `grade`: how the
 * hit is marked; `words`: those of the session that its card shows; `vectors`: whether meaning counts.
 */
export function sentence({ moved, isNew }, because, { grade, words, session, vectors = true }) {
  const said = (text, like = null, end = "") => ({ text, like, end });
  const list = words.length ? `: ${words.join(", ")}` : "";
  if (grade) return said(grade > 0 ? "You marked this as relevant" : "You marked this as not relevant");
  if (!moved) return said("");
  if (because && Math.sign(because.grade) === Math.sign(moved)) {
    return moved > 0 ? said("More like ", because.title, because.grade < 1 ? `, which you opened${list}` : list) : said("Like ", because.title, `, which ${verb(because.grade)}`);
  }
  if (moved < 0) return said("Others moved ahead");
  if (session && words.length) return said(`Has words of what you marked${list}`);
  if (isNew || !session) return said(vectors ? "Closer to your query in meaning" : session ? "Has words of what you marked" : "Others fell behind");
  return said("Others fell behind");
}
