// Keys, as the page says below the hits.

import { $ } from "./dom.js";
import { cards } from "./columns.js";

export function listen({ mark, undo, close }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || $("dialog").open) return;
    if (event.key === "Escape") {
      if (document.activeElement === $("query")) $("query").blur();
      else close();
      return;
    }
    if (event.target.matches?.("input, textarea, select")) return;
    const shown = cards($("left").contains(document.activeElement) ? "left" : "right");
    const at = shown.findIndex((card) => card.node.contains(document.activeElement));
    const steps = { j: 1, k: -1 }, grades = { y: 1, n: -1 };
    if (event.key in steps && shown.length) {
      const next = shown[Math.min(shown.length - 1, Math.max(0, at < 0 ? 0 : at + steps[event.key]))];
      next.node.focus({ preventScroll: true });
      next.node.scrollIntoView({ block: "nearest" });
    } else if (event.key in grades && at >= 0) mark(shown[at].hit, grades[event.key]);
    else if (event.key === "u") undo();
    else if (event.key === "/") $("query").select();
    else return;
    event.preventDefault();
  });
}
