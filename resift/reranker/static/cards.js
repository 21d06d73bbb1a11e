// A hit as a card. Its node is made once for a document and a column, and changed as the document moves.

import { cut, element, highlighted, shortName, thumb } from "./dom.js";
import { titleOf } from "./searching.js";
import { arrow, places, sentence } from "./why.js";

const SNIPPET = 420;

/** The card of a hit; `act` has what its buttons do: mark(hit, grade), read(card). */
export function makeCard(hit, act) {
  const node = element("li", { class: "card", tabIndex: -1 });
  const rank = element("span", { class: "rank" });
  const moved = element("span", { class: "moved" });
  const title = element("h3", { dir: "auto" });
  const snippet = element("p", { class: "snippet", dir: "auto" });
  const facts = element("p", { class: "facts", hidden: true });
  const why = element("p", { class: "why" });
  const yes = judging("relevant", 1), no = judging("not relevant", -1);
  const reading = element("button", { type: "button", class: "quiet read", onclick: () => act.read(card) }, "Read");
  const body = element("div", { class: "body" }, facts, snippet, element("div", { class: "buttons" }, reading, moved, why));
  const picture = element("span", { class: "picture", hidden: true });
  node.append(rank, title, element("span", { class: "thumbs" }, yes, no), picture, body);
  const card = { node, hit, rank, moved, title, facts, snippet, why, reading, yes, no, picture, body };

  function judging(name, grade) {
    const button = element("button", { type: "button", class: "thumb", title: name, onclick: () => act.mark(card.hit, grade) });
    button.append(thumb(grade), element("span", { class: "unseen" }, name));
    return button;
  }
  return card;
}

/** What does not change while a document moves: title, link, image and snippet. */
export function fill(card, hit, titleField) {
  card.hit = hit;
  card.node.dataset.id = hit._id;
  const { title, text, link, image, facts } = hit.resift.card;
  card.facts.replaceChildren(...Object.entries(facts ?? {}).map(([name, value]) => element("span", { dir: "auto" }, element("span", { class: "name" }, `${shortName(name)} `), value)));
  card.facts.hidden = !facts;
  const name = title || hit._id;
  card.title.replaceChildren(link ? element("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, name) : name);
  card.title.title = name.length > 90 ? name : "";
  const fragments = Object.entries(hit.highlight ?? {}).filter(([field]) => field !== titleField).flatMap(([, found]) => found);
  const nodes = fragments.length ? fragments.slice(0, 2).flatMap((one, at) => [...(at ? [" … "] : []), ...highlighted(one)]) : [text === title ? "" : text];
  card.snippet.replaceChildren(...shortened(nodes));
  const src = image ?? "";
  if ((card.picture.dataset.image ?? "") === src) return; // one that cannot be loaded stays hidden
  card.picture.dataset.image = src;
  card.picture.hidden = !src;
  card.picture.replaceChildren(...(src ? [element("img", { src, alt: "", loading: "lazy", referrerPolicy: "no-referrer", onerror: () => { card.picture.hidden = true; } })] : []));
}

/** As much of the nodes as a snippet may show: engines cut between words, which some texts have none of. */
function shortened(nodes) {
  const kept = [];
  let left = SNIPPET;
  for (const node of nodes) {
    const text = typeof node === "string" ? node : node.textContent;
    if (left <= 0) break;
    if (typeof node === "string") kept.push(cut(node, left));
    else {
      node.textContent = cut(text, left);
      kept.push(node);
    }
    left -= text.length;
  }
  return kept;
}

/** The rank of a card in its column, and how it is marked. */
export function place(card, rank, grade) {
  card.rank.textContent = rank;
  card.node.classList.toggle("relevant", grade > 0);
  card.node.classList.toggle("irrelevant", grade < 0);
  press(card, grade);
  const name = card.hit.resift.card.title || card.hit._id;
  card.yes.lastChild.textContent = `relevant: ${cut(name, 80)}`;
  card.no.lastChild.textContent = `not relevant: ${cut(name, 80)}`;
}

/** Show how a document is marked, which the next search may take a moment to do. */
export function press(card, grade) {
  card.yes.setAttribute("aria-pressed", String(grade >= 1));
  card.no.setAttribute("aria-pressed", String(grade <= -1));
}

/** The arrow of a card on the right, and what moved it in plain words; nothing of both where there are no `ranks`. */
export function explain(card, ranks, name, { learned, ...how } = {}) {
  card.why.replaceChildren();
  card.moved.replaceChildren();
  if (!ranks) return;
  const found = places(ranks), shown = arrow(found, name);
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

/** A card on the left has no arrow: it says where the hit went. */
export function point(card, text) {
  card.moved.className = "moved went";
  card.moved.textContent = text;
}

/** The whole document, as text, in the place of the snippet. */
export function showText(card, text) {
  const whole = element("div", { class: "whole", dir: "auto", tabIndex: 0, role: "region", "aria-label": "The whole document" }, text);
  card.body.querySelector(".whole")?.remove();
  card.snippet.hidden = true;
  card.snippet.after(whole);
  whole.focus({ preventScroll: true });
}

export function hideText(card) {
  card.body.querySelector(".whole")?.remove();
  card.snippet.hidden = false;
}
