// What the page shows, as the address says it: reload, back and a shared link show the same.

import { LAST } from "./searching.js";

export const METHODS = ["bm25", "hybrid", "trained", "session"];
const DEFAULTS = { index: "", query: "", session: "", page: 1, left: "hybrid", right: "session", filters: [], drawer: false, compare: false, without: [] };

/** The state that an address says, with the defaults for all that it leaves out or that makes no sense. */
export function read(search, index) {
  const given = new URLSearchParams(search);
  const state = { ...DEFAULTS, index: given.get("index") || index, query: given.get("q") || "" };
  const session = given.get("session") || "";
  if (/^[A-Za-z0-9_.:-]{1,128}$/.test(session)) state.session = session;
  const page = Number(given.get("page"));
  if (Number.isInteger(page) && page > 0 && page <= LAST) state.page = page;
  for (const side of ["left", "right"]) if (METHODS.includes(given.get(side))) state[side] = given.get(side);
  state.filters = given.getAll("filter").filter((one) => one.indexOf(":") > 0).slice(0, 20).map((one) => {
    const at = one.indexOf(":");
    return { field: one.slice(0, at), value: one.slice(at + 1) };
  });
  state.compare = ["compare", "left", "right"].some((name) => given.get(name));
  state.without = given.getAll("without").filter(Boolean).slice(0, 100);
  state.drawer = given.get("drawer") === "1";
  return state;
}

export function write(state) {
  const said = new URLSearchParams();
  for (const [name, value] of [["index", state.index], ["q", state.query], ["session", state.session]]) if (value) said.set(name, value);
  for (const { field, value } of state.filters) said.append("filter", `${field}:${value}`);
  for (const name of ["page", "left", "right"]) if (state[name] !== DEFAULTS[name]) said.set(name, state[name]);
  for (const word of state.without) said.append("without", word);
  for (const name of ["compare", "drawer"]) if (state[name]) said.set(name, "1");
  return `?${said}`;
}
