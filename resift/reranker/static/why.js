// Why a hit stands where it stands, in plain words.

import { plural } from "./dom.js";

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
