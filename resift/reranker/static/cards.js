// A hit as a card. Its node is made once for a document and a column, and changed as the document moves.

import { cut, element, highlighted, plain, shortName, thumb } from "./dom.js";
import { titleOf } from "./searching.js";
import { arrow, places, sentence } from "./why.js";

/** The card of a hit; `act` has what its buttons do: mark(hit, grade), read(card). */
export function makeCard(hit, act) {
  const part = (tag, name) => element(tag, { class: name, dir: "auto" });
  const judging = (name, grade) => element("button", { class: "thumb", title: name, onclick: () => act.mark(card.hit, grade) }, thumb(grade), element("span", { class: "unseen" }));
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
export function fill(card, hit, titleField, rank, grade) {
  card.hit = hit;
  card.node.dataset.id = hit._id;
  card.rank.textContent = rank;
  const { title, text, link, image, facts } = hit.resift.card, name = title || hit._id;
  card.facts.replaceChildren(...Object.entries(facts ?? {}).map(([field, value]) => element("span", { dir: "auto" }, element("span", { class: "soft" }, `${shortName(field)} `), plain(value))));
  card.title.replaceChildren(link ? element("a", { href: link, target: "_blank", rel: "noopener noreferrer" }, name) : name);
  const fragments = Object.entries(hit.highlight ?? {}).filter(([field]) => field !== titleField).flatMap(([, found]) => found);
  card.snippet.replaceChildren(...(fragments.length ? fragments.slice(0, 2).flatMap((one, at) => [at ? " … " : "", ...highlighted(one)]) : [text === title ? "" : text]));
  card.yes.lastChild.textContent = `relevant: ${cut(name, 80)}`;
  card.no.lastChild.textContent = `not relevant: ${cut(name, 80)}`;
  card.node.classList.toggle("relevant", grade > 0);
  card.node.classList.toggle("irrelevant", grade < 0);
  press(card, grade);
  if (card.image === image) return; // one that cannot be loaded stays hidden
  card.image = image;
  card.picture.hidden = !image;
  card.picture.replaceChildren(...(image ? [element("img", { src: image, alt: "", loading: "lazy", referrerPolicy: "no-referrer", onerror: () => { card.picture.hidden = true; } })] : []));
}

export function press(card, grade) {
  card.yes.setAttribute("aria-pressed", String(grade >= 1));
  card.no.setAttribute("aria-pressed", String(grade <= -1));
}

/** The arrow of a card on the right, and what moved it in plain words; nothing of both where there are no `ranks`. */
export function explain(card, ranks, { learned, ...how } = {}) {
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

export const point = (card, text) => {
  card.moved.className = "moved went";
  card.moved.textContent = text;
};

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
