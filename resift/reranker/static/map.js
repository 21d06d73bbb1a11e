// The map: hits, marks and the query as points of a plane, and the way that the session moved the query.

import { cut, shape } from "./dom.js";

const WIDTH = 320, HEIGHT = 220, MARGIN = 18;

const at = ([x, y]) => [MARGIN + (x + 1) / 2 * (WIDTH - 2 * MARGIN), MARGIN + (1 - y) / 2 * (HEIGHT - 2 * MARGIN)];

/** The map of an answer's plane. `titles` gives the title of a document by its key, `pick` is called with a hit. */
export function drawMap({ hits, plane }, start, titleOf, pick) {
  const svg = shape("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "map", role: "img", "aria-label": described(plane) });
  svg.append(shape("defs", {}, shape("marker", { id: "tip", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto" }, shape("path", { d: "M0 0 8 4 0 8z" }))));
  const marked = new Map(plane.marks.map((mark) => [JSON.stringify([mark.index, mark.document]), mark]));
  const shown = new Set();
  hits.forEach((hit, rank) => {
    if (!plane.hits[rank]) return;
    const key = JSON.stringify([hit._index, hit._id]), mark = marked.get(key);
    shown.add(key);
    svg.append(spot(at(plane.hits[rank]), mark?.grade, String(start + rank + 1), titleOf(key), () => pick(key)));
  });
  for (const [key, mark] of marked) if (mark.at && !shown.has(key)) svg.append(spot(at(mark.at), mark.grade, "", titleOf(key)));
  if (plane.query) svg.append(...query(at(plane.query), plane.moved && at(plane.moved)));
  return svg;
}

function spot([x, y], grade, label, title, act) {
  const kind = grade > 0 ? "relevant" : grade < 0 ? "irrelevant" : "";
  const group = shape("g", { class: `spot ${kind}`, transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})` });
  const name = shape("title");
  name.textContent = cut(title, 100);
  group.append(name, shape("circle", { r: label ? 9 : 5 }));
  if (label) {
    const text = shape("text", { dy: "0.35em" });
    text.textContent = label;
    group.append(text);
  }
  if (act) group.addEventListener("click", act);
  return group;
}

function query([x, y], moved) {
  const diamond = (px, py, kind) => shape("path", { class: kind, d: `M${px} ${py - 7}l7 7l-7 7l-7 -7z` });
  if (!moved) return [diamond(x, y, "query")];
  const [left, top] = moved, length = Math.hypot(left - x, top - y) || 1, gap = Math.min(10, length / 2);
  const end = [left - (left - x) / length * gap, top - (top - y) / length * gap];
  return [shape("path", { class: "way", d: `M${x} ${y}L${end[0]} ${end[1]}`, "marker-end": "url(#tip)" }), diamond(x, y, "query from"), diamond(left, top, "query")];
}

function described({ hits, marks, moved }) {
  const known = hits.filter(Boolean).length;
  return `A map of ${known} hits and ${marks.length} marks${moved ? "; the query moved to the right, towards the relevant ones" : ""}.`;
}
