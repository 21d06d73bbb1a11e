// Why a hit stands where it stands. By places, of which the parts always add up to the arrow beside the hit.

import { plural, signed } from "./dom.js";

/**
 * How many places a hit won: in all, by the session's words and by meaning.
 * `base` is its rank in the ranking that is compared with, `words` with the session's words alone, `rank` now; null or
 * undefined where it is not among the first `depth`. `by` says what is known: all three ("parts") or that a ranking
 * differs by its meaning alone ("meaning").
 */
export function places({ base, words, rank, depth, by }) {
  const start = base ?? depth + 1;
  const between = by === "meaning" ? start : words ?? depth + 1;
  return {
    moved: start - rank,
    isNew: !base,
    parts: by && base && (by === "meaning" || words) ? { text: start - between, meaning: between - rank } : null,
  };
}

/** The arrow beside a hit: a sign, what it says to people who do not see it, and its class. */
export function arrow({ moved, isNew }, name) {
  if (isNew) return { text: "new", spoken: `not among the first hits of ${name}`, kind: "up" };
  if (!moved) return { text: "=", spoken: `same place as by ${name}`, kind: "same" };
  const many = plural(Math.abs(moved), "place");
  return moved > 0 ? { text: `▲ ${moved}`, spoken: `up ${many}`, kind: "up" } : { text: `▼ ${-moved}`, spoken: `down ${many}`, kind: "down" };
}

const verb = (grade) => grade >= 1 ? "you marked" : grade > 0 ? "you opened" : grade <= -1 ? "you marked as not relevant" : "you passed over";

/**
 * One sentence in two parts: `text`, and what is `like` it, null where no mark explains the way that the hit went.
 * `because` is the judged document that is most like the hit; one that pulls the other way is never named.
 */
export function sentence(found, because, own, name, depth) {
  const { moved, isNew, parts } = found;
  const named = parts ? [["text match", parts.text], ["meaning", parts.meaning]].filter(([, places]) => places) : [];
  const said = named.map(([part, places]) => `${part} ${signed(places)}`).join(", ");
  const sum = said ? said[0].toUpperCase() + said.slice(1) : null;
  const fits = because && Math.sign(because.grade) === Math.sign(moved);
  const like = fits ? (because.document === own ? { itself: verb(because.grade) } : { title: because.title, verb: verb(because.grade) }) : null;
  const many = plural(Math.abs(moved), "place");
  if (isNew) return { text: `Not among the first ${depth} of ${name}`, like };
  if (!moved) return { text: sum && parts.text ? `${sum}: they even out` : `Same place as by ${name}`, like: null };
  const text = sum ?? `${moved > 0 ? "Up" : "Down"} ${many} from ${name}`;
  return { text: moved > 0 || like ? text : `${text}: others moved ahead`, like };
}
