// The page of a review: one document at a time. Judgements are stored on this device until the service has received them.

import { ApiError, call, ownKey } from "./api.js";
import { plain } from "./dom.js";

const $ = (id) => document.getElementById(id);
const id = document.body.dataset.review;
const path = `../v1/reviews/${encodeURIComponent(id)}`;
const WAITING = `resift-review-${id}`; // judgements that were not sent yet, of all tabs with this review
const AHEAD = 3;

let queue = []; // documents to read; the first one is shown
let history = []; // documents that were judged on this page, in order
let busy = false, ended = false, lost = false, left = 0; // lost: the service does not answer; left: number of unjudged documents

$("by").value = localStorage.getItem("resift-reviewer") ?? "";
const by = () => $("by").value.trim();
let reader = by();

function notice(text) {
  $("notice").textContent = text;
  $("notice").hidden = !text;
}

async function ask(method, part, body, kind = "json") {
  try {
    const answer = await call(method, path + part, body, undefined, kind);
    notice("");
    lost = false;
    return answer;
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      const key = prompt("This review needs an API key (rsf_…) with the scope review.");
      if (key) {
        ownKey(key);
        return ask(method, part, body, kind);
      }
    }
    throw error;
  }
}

const waiting = () => JSON.parse(localStorage.getItem(WAITING) ?? "[]");
const keep = (judgements) => localStorage.setItem(WAITING, JSON.stringify(judgements));

/** Send the waiting judgements in order, in one tab at a time. Judgements that cannot be sent stay, and are sent later. */
async function send() {
  if (busy) return;
  busy = true;
  try {
    await (navigator.locks ? navigator.locks.request(WAITING, sendAll) : sendAll()); // only secure pages have locks
  } catch (error) {
    failed(error);
  } finally {
    busy = false;
  }
}

async function sendAll() {
  for (let first; (first = waiting()[0]); ) {
    const { name, key, ...what } = first;
    const sent = () => keep(waiting().filter((judgement) => judgement.key !== key));
    try {
      const { progress } = await ask("POST", `/${name}`, what);
      sent();
      say(progress);
    } catch (error) {
      if (["bad_input", "not_found"].includes(error.code)) sent(); // would be refused again
      throw error;
    }
  }
}

function failed(error) {
  lost = !(error instanceof ApiError);
  if (!lost) notice(error.message + (error.expected ? `: expected ${error.expected}` : ""));
  else notice(`The service does not answer. You can continue: ${waiting().length} judgements are stored on this device and sent later.`);
}

function later(name, what) {
  keep([...waiting(), { name, key: Math.random(), by: by(), ...what }]);
  return send();
}

function say(progress) {
  const least = Math.round(100 * progress.recall.least);
  left = progress.total - progress.read;
  const more = progress.may_stop
    ? `You may stop: ${Math.round(100 * progress.target)} % of the relevant documents are found, with 95 % confidence.`
    : progress.relevant
      ? `At least ${least} % of the relevant ones are found, with 95 % confidence. About ${progress.cost} more to find 1 more.`
      : "";
  $("state").textContent = `${progress.read} of ${progress.total} read, ${progress.relevant} relevant. ${more}`;
}

/** Draw the number of relevant documents by documents read, and its upper bound with 95 % confidence. */
function draw({ found_at: places, progress }) {
  $("curve").toggleAttribute("hidden", !progress.relevant); // SVG elements have no property hidden
  if (!progress.relevant) return;
  const most = progress.recall.least ? Math.min(progress.relevant / progress.recall.least, progress.relevant * 4) : progress.relevant;
  const x = (read) => (640 * read) / progress.total, y = (count) => 116 - (112 * count) / most;
  const points = places.flatMap((read, n) => [`${x(read)},${y(n)}`, `${x(read)},${y(n + 1)}`]);
  const line = `M0,116 L${[...points, `${x(progress.read)},${y(progress.relevant)}`].join(" L")}`;
  const band = `M${x(progress.read)},${y(progress.relevant)} L640,${y(progress.relevant)} L640,${y(most)} Z`;
  document.querySelector("#curve .band").setAttribute("d", band);
  document.querySelector("#curve .line").setAttribute("d", line);
}

async function refresh() {
  try {
    const review = await ask("GET", "");
    say(review.progress);
    draw(review);
  } catch (error) {
    failed(error);
  }
}

async function fill() {
  if (ended || queue.length > AHEAD) return;
  await send();
  if (waiting().length) return;
  try {
    const { documents, progress } = await ask("POST", "/next", { by: by() });
    const known = new Set([...queue, ...history].map((one) => one.id));
    const more = documents.filter((one) => !known.has(one.id));
    queue.push(...more);
    ended = !documents.length;
    say(progress);
  } catch (error) {
    failed(error);
  }
}

function show() {
  const shown = queue[0];
  $("document").hidden = $("yes").hidden = $("no").hidden = !shown;
  $("actions").hidden = !shown && !history.length;
  $("end").hidden = Boolean(shown) || !ended;
  $("ended").textContent = left ? "Other readers have the remaining documents" : "All documents are read";
  $("undo").disabled = !history.length;
  if (!shown) return;
  const [first, ...others] = Object.values(shown.fields).filter((value) => typeof value === "string" && value && value !== shown.id).map(plain);
  const title = first && first.length <= 300 ? first : "";
  $("title").textContent = title || shown.id;
  $("why").textContent = shown.words.length ? `Ranked for: ${shown.words.join(", ")}` : "";
  $("text").replaceChildren(...marked(title ? others.join("\n") : [first, ...others].join("\n"), shown.words));
  $("document").focus({ preventScroll: true });
}

/** Return the text, with the words that suggest its relevance marked. */
function marked(text, words) {
  if (!words.length) return [text];
  const escaped = words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&").replace(/ /g, "\\W+"));
  const parts = text.split(new RegExp(`\\b(${escaped.join("|")})\\b`, "gi"));
  return parts.map((part, n) => {
    if (n % 2 === 0) return part;
    const node = document.createElement("mark");
    node.textContent = part;
    return node;
  });
}

async function judge(relevant) {
  const shown = queue.shift();
  if (!shown) return;
  history.push(shown);
  show();
  await later("judgements", { [relevant ? "relevant" : "irrelevant"]: [shown.id] });
  await next();
}

async function undo() {
  const last = history.pop();
  if (!last) return;
  queue.unshift(last);
  show();
  await later("undo", {});
  await refresh();
}

async function next() {
  await fill();
  if ($("document").hidden) show();
  if (history.length % 5 === 0) await refresh();
}

async function start() {
  await refresh();
  await fill();
  show();
}

$("yes").addEventListener("click", () => judge(true));
$("no").addEventListener("click", () => judge(false));
$("undo").addEventListener("click", undo);
$("by").addEventListener("change", async () => {
  const before = reader;
  reader = by();
  localStorage.setItem("resift-reviewer", reader);
  queue = [];
  history = [];
  ended = false;
  await ask("POST", "/release", { by: before }).catch(failed); // others, such as the new reader, may read these documents
  start();
});
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
  const act = { y: () => judge(true), n: () => judge(false), u: undo }[event.key];
  if (!act || event.repeat) return;
  event.preventDefault();
  act();
});
for (const link of document.querySelectorAll("[data-format]")) {
  const { format } = link.dataset;
  link.href = `${path}/export?format=${format}`;
  link.download = `${id}.${format}`;
  link.addEventListener("click", async (event) => {
    if (!ownKey()) return;
    event.preventDefault(); // links send no API key
    try {
      const file = document.createElement("a");
      file.href = URL.createObjectURL(await ask("GET", `/export?format=${format}`, undefined, "blob"));
      file.download = link.download;
      file.click();
      setTimeout(() => URL.revokeObjectURL(file.href), 60000);
    } catch (error) {
      failed(error);
    }
  });
}
setInterval(async () => {
  const over = ended && left > 0; // other readers may have released documents
  if (over) ended = false;
  if (waiting().length || over || (lost && !queue.length)) await next();
}, 5000);
start();
