"use strict";
// The search page: it only calls the HTTP API. Hits are built from text nodes; the one piece of HTML that is
// inserted is the engine's highlight, which was escaped there but for its <em> tags.

const $ = (id) => document.getElementById(id);
const session = sessionStorage.getItem("resift-session") || crypto.randomUUID?.() || `s-${Date.now()}-${Math.random().toString(36).slice(2)}`;
sessionStorage.setItem("resift-session", session);
$("session-id").textContent = session;

let shown = [];        // hits on the page
let before = null;     // hits before the last mark of this query
let marks = {};        // "index document" → the grade that counts: 1, -1, or a fraction for a click

// Where the service has API keys, the user enters one; it stays in this tab.
$("key").value = sessionStorage.getItem("resift-key") || "";
$("key").onchange = () => { sessionStorage.setItem("resift-key", $("key").value.trim()); attempt(begin); };

async function call(method, path, body) {
  const headers = body ? { "Content-Type": "application/json" } : {};
  if ($("key").value) headers["X-Api-Key"] = $("key").value.trim();
  const response = await fetch(path, { method, headers, body: body && JSON.stringify(body) });
  if (response.status === 401 || $("key").value) $("key-label").hidden = false;
  const answer = await response.json();
  if (!response.ok) {
    const { code, message, expected } = answer.error;
    throw Object.assign(new Error(message + (expected ? ` — expected: ${expected}` : "")), { code });
  }
  return answer;
}

function say(text, isError = false) {
  $("status").textContent = text;
  $("status").className = isError ? "error" : "";
}

async function attempt(work) {
  try { await work(); } catch (error) { say(error.message, true); }
}

async function search(keepBefore) {
  const query = $("query").value.trim(), index = $("index").value.trim();
  if (!query || !index) return;
  const started = performance.now();
  const answer = await call("POST", "v1/search", { index, query, session, size: 10, highlight: true, reasons: true, baseline: true, alpha: Number($("alpha").value) });
  if (!keepBefore) before = null;
  shown = answer.hits.hits;
  const how = answer.resift.reranked ? `reranked${answer.resift.session ? " with this session" : ""}` : `engine's order: ${answer.resift.reason}`;
  say(`${answer.hits.total?.value ?? "?"} matches, ${how}, ${(performance.now() - started).toFixed(0)} ms`);
  suggest(index, answer.resift.did_you_mean);
  draw();
}

function suggest(index, query) {
  $("did-you-mean").replaceChildren();
  if (!query) return;
  const link = element("a", "", query);
  link.href = `?${new URLSearchParams({ index, q: query })}`;
  $("did-you-mean").append("Did you mean ", link, "?");
}

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// At most four digits; with an alpha near 1 scores are powers of e beyond all that needs to be read.
function rounded(number) {
  if (number == null) return "–";
  const size = Math.abs(number);
  return size >= 1e4 || (size && size < 1e-4) ? number.toExponential(1).replace("+", "") : String(Number(number.toPrecision(4)));
}

const key = (hit) => `${hit._index} ${hit._id}`;
const markName = (hit) => ({ 1: "relevant", "-1": "irrelevant" })[marks[key(hit)]] || "";

function label(hit) {
  const source = hit._source || {};
  const text = source.title || source.text || Object.values(source).find((value) => typeof value === "string") || hit._id;
  return String(text).slice(0, 90);
}

function draw() {
  $("hits").replaceChildren(...shown.map(drawHit));
  const old = before || [];
  const rows = [];
  for (let i = 0; before && i < Math.max(old.length, shown.length); i++) {
    const row = element("tr");
    for (const hit of [old[i], shown[i]]) {
      const cell = element("td", hit && markName(hit), hit ? `${i + 1}. ${label(hit)}` : "");
      if (hit) cell.title = label(hit);
      row.append(cell);
    }
    rows.push(row);
  }
  if (!rows.length) {
    const row = element("tr"), cell = element("td", "", "mark a hit to compare");
    cell.colSpan = 2;
    row.append(cell);
    rows.push(row);
  }
  $("compare").tBodies[0].replaceChildren(...rows);
}

function drawHit(hit, i) {
  const item = element("li", markName(hit));
  const rank = element("div", "rank", String(i + 1));
  const was = before ? before.findIndex((other) => key(other) === key(hit)) : hit.resift ? (hit.resift.engine_rank ?? 0) - 1 : i;
  const moved = was < 0 ? "new" : was === i ? "" : was > i ? `▲ ${was - i}` : `▼ ${i - was}`;
  rank.append(element("span", `move ${was < 0 || was > i ? "up" : "down"}`, moved));
  const body = element("div");
  const title = element("div", "title");
  const titleText = hit._source?.title;
  if (titleText) title.append(`${titleText} `);
  title.append(element("span", "id", hit._id));
  const text = element("div", "text");
  const fragments = Object.entries(hit.highlight || {}).filter(([name]) => name !== "title").flatMap(([, found]) => found);
  if (fragments.length) text.innerHTML = fragments.slice(0, 2).join(" … ");
  else text.textContent = label({ ...hit, _source: { ...hit._source, title: undefined } }).slice(0, 300);
  const parts = hit.resift || {};
  const scores = element("div", "scores", `score ${rounded(hit._score)} · words ${rounded(parts.engine_score)} · similarity ${rounded(parts.similarity)} · plain search: rank ${parts.engine_rank ?? "–"}`);
  body.append(title, text, scores);
  const why = parts.because;
  if (why && why.document !== hit._id) {
    const line = element("div", "why", why.gain > 0 ? "▲ like " : "▼ like ");
    line.append(element("q", "", why.title || why.document), `, which you ${verb(why.grade)} (similarity ${why.gain > 0 ? "+" : "−"}${Math.abs(why.gain).toFixed(2)})`);
    body.append(line);
  }
  text.title = "open";
  text.onclick = () => attempt(() => open(hit, text));
  const buttons = element("div", "marks");
  for (const [value, className, name] of [[1, "yes", "relevant"], [-1, "no", "not relevant"]]) {
    const button = element("button", className, name);
    button.type = "button";
    button.setAttribute("aria-pressed", String(marks[key(hit)] === value));
    button.onclick = () => attempt(() => mark(hit, marks[key(hit)] === value ? 0 : value));
    buttons.append(button);
  }
  item.append(rank, body, buttons);
  return item;
}

const verb = (grade) => grade >= 1 ? "marked" : grade > 0 ? "opened" : grade <= -1 ? "marked as not relevant" : "passed over";

const judge = (index, id, name) => call("POST", "v1/feedback", { session, index, query: $("query").value.trim(), [name]: [id] });

// Opening a hit is a click: it is noted, and the ranking stays as it is until the next search.
async function open(hit, text) {
  const source = { ...hit._source };
  delete source.title;
  text.textContent = Object.values(source).filter((value) => typeof value === "string").join("\n");
  text.classList.add("open");
  text.onclick = null;
  if (!marks[key(hit)]) showSession(await judge(hit._index, hit._id, "clicked"));
}

async function mark(hit, value) {
  const state = await judge(hit._index, hit._id, { 1: "relevant", "-1": "irrelevant", 0: "neutral" }[value]);
  before = shown;
  showSession(state);
  await search(true);
}

function showSession(state) {
  marks = {};
  const counting = (state?.judgements || []).filter((one) => one.counts);
  for (const { index, document: id, grade } of counting) marks[`${index} ${id}`] = grade;
  const learned = state?.learned || {};
  const told = Object.fromEntries((learned.because || []).map((one) => [`${one.index} ${one.document}`, one]));
  const box = $("session-state");
  box.replaceChildren();
  if (!counting.length) box.append(element("p", "hint", "Nothing marked yet. What you mark or open moves this session's searches, and nobody else's."));
  const list = element("ul", "judged");
  for (const { index, document: id, grade, query } of counting) {
    const known = told[`${index} ${id}`];
    const item = element("li", grade > 0 ? "relevant" : "irrelevant");
    const line = element("div", "what");
    line.append(element("b", "", grade >= 1 ? "✓" : grade > 0 ? "◦" : "✗"), ` ${known?.title || id}`);
    line.title = `${verb(grade)}${query ? ` for “${query}”` : ""}`;
    const drop = element("button", "drop", "×");
    drop.type = "button";
    drop.title = "take this back";
    drop.setAttribute("aria-label", `take back: ${known?.title || id}`);
    drop.onclick = () => attempt(async () => { const changed = await judge(index, id, "neutral"); before = shown; showSession(changed); await search(true); });
    item.append(line, drop);
    if (known?.words.length) item.append(element("div", "words", known.words.join(" · ")));
    list.append(item);
  }
  if (counting.length) box.append(list);
  const moved = element("dl");
  const line = (name, text) => moved.append(element("dt", "", name), element("dd", "", text));
  if (learned.towards?.length) line("searches lean towards", learned.towards.join(", "));
  if (learned.away?.length) line("and away from", learned.away.join(", "));
  box.append(moved);
  $("undo").disabled = !state?.judgements?.length;
  $("undo").textContent = state?.steps ? `Undo step ${state.steps}` : "Undo";
  $("forget").disabled = !state;
  $("export").hidden = !state;
}

// Not a plain link, which could not send the key.
async function download() {
  const state = await call("GET", `v1/sessions/${session}`);
  const link = element("a");
  link.href = URL.createObjectURL(new Blob([JSON.stringify(state)], { type: "application/json" }));
  link.download = "session.json";
  link.click();
  URL.revokeObjectURL(link.href);
}

async function begin() {
  await loadSession();
  await search(false);
}

async function loadSession() {
  try { showSession(await call("GET", `v1/sessions/${session}`)); }
  catch (error) { if (error.code !== "session_not_found") throw error; showSession(null); }
}

$("form").onsubmit = (event) => { event.preventDefault(); attempt(() => search(false)); };
$("alpha").oninput = () => { $("alpha-value").textContent = $("alpha").value; };
$("alpha").onchange = () => attempt(() => search(false));
$("undo").onclick = () => attempt(async () => { const state = await call("POST", `v1/sessions/${session}/undo`); before = shown; showSession(state); await search(true); });
$("forget").onclick = () => attempt(async () => { await call("DELETE", `v1/sessions/${session}`); showSession(null); await search(false); });
$("export").onclick = (event) => { event.preventDefault(); attempt(download); };
const asked = new URLSearchParams(location.search).get("q");
if (asked) $("query").value = asked;
attempt(begin);
