// What a session holds, for other tools: judgements of a test collection, behaviour (UBI), and commands for a shell.

import { $, element } from "./dom.js";
import { bodies } from "./searching.js";

const counting = (session) => (session?.judgements ?? []).filter((one) => one.counts);

/** The marks as TREC's qrels, and the queries that they belong to. What was opened or passed over is no judgement. */
export function qrels(session) {
  const marks = counting(session).filter(({ grade }) => Math.abs(grade) === 1);
  const queries = [...new Set(marks.map(({ query }) => query))];
  return [
    { name: "qrels.txt", text: marks.map(({ query, document, grade }) => `${queries.indexOf(query) + 1}\t0\t${document}\t${grade > 0 ? 1 : 0}\n`).join("") },
    { name: "queries.tsv", text: queries.map((query, at) => `${at + 1}\t${query.replace(/\s+/g, " ")}\n`).join("") },
  ];
}

/** The session as queries and events of User Behavior Insights, a line of JSON each. */
export function ubi(session) {
  const found = counting(session);
  const queries = new Map();
  for (const { query, at } of found) if (!queries.has(query)) queries.set(query, { id: `${session.session}-${queries.size + 1}`, at });
  const time = (at) => new Date(at * 1000).toISOString();
  const action = (grade) => grade >= 1 ? "thumbs_up" : grade > 0 ? "click" : grade <= -1 ? "thumbs_down" : "impression";
  const lines = (items) => items.map((item) => `${JSON.stringify(item)}\n`).join("");
  return [
    { name: "ubi_queries.jsonl", text: lines([...queries].map(([query, { id, at }]) => ({ query_id: id, user_query: query, client_id: session.session, application: "resift", timestamp: time(at) }))) },
    {
      name: "ubi_events.jsonl",
      text: lines(found.map(({ query, index, document, grade, at }) => ({
        action_name: action(grade), query_id: queries.get(query).id, user_query: query, client_id: session.session, session_id: session.session, timestamp: time(at),
        event_attributes: { object: { object_id: document, object_id_field: "_id", name: index } },
      }))),
    },
  ];
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** Commands that search as the right column does, and that set the session's marks again. */
export function curl(state, session, withKey) {
  const base = new URL(".", location.href).href;
  const post = (path, body) => `curl -s ${quoted(base + path)}${withKey ? ' -H "X-Api-Key: $KEY"' : ""} --json ${quoted(JSON.stringify(body))}\n`;
  const { right } = bodies({ ...state, drawer: false }, []);
  const body = Object.fromEntries(Object.entries(right).filter(([name, value]) => value !== null && value !== false && value?.length !== 0 && name !== "documents"));
  const steps = grouped(counting(session));
  const marks = [...steps].map(([key, judged]) => {
    const [index, query] = JSON.parse(key);
    return post("v1/feedback", { session: session.session, index, query, scores: Object.fromEntries(judged.map(({ document, grade }) => [document, grade])) });
  });
  return [{ name: "search.sh", text: post("v1/search", body) }, ...(marks.length ? [{ name: "marks.sh", text: marks.join("") }] : [])];
}

function grouped(judged) {
  const found = new Map();
  for (const one of judged) {
    const key = JSON.stringify([one.index, one.query]);
    found.set(key, [...(found.get(key) ?? []), one]);
  }
  return found;
}

/** Show texts in the dialog, each to be copied or saved. */
export function offer(title, files, note) {
  const areas = files.map(({ name, text }) => {
    const area = element("textarea", { readOnly: true, rows: Math.min(9, Math.max(2, text.split("\n").length)), value: text, spellcheck: false, "aria-label": name });
    const copy = element("button", { type: "button", onclick: async () => {
      area.select();
      await navigator.clipboard?.writeText(text).catch(() => undefined);
      copy.textContent = "Copied";
    } }, "Copy");
    const save = element("a", { class: "button", download: name, href: URL.createObjectURL(new Blob([text], { type: "text/plain" })) }, "Save");
    return element("div", { class: "export" }, element("p", {}, element("code", {}, name), copy, save), area);
  });
  const close = element("button", { type: "button", class: "primary", onclick: () => $("dialog").close() }, "Close");
  $("dialog").replaceChildren(element("h2", { id: "dialog-title" }, title), ...(note ? [element("p", { class: "hint" }, note)] : []), ...areas, element("div", { class: "ends" }, close));
  $("dialog").showModal();
}
