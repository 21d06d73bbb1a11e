"use strict";
// Resift in any page: <script src="http://search.example:8080/resift.js" data-index="news"></script>
//
//   Resift.search("fire", {size: 10})  the hits, as OpenSearch has them; null if Resift cannot answer
//   Resift.clicked("5")                the visitor opened a hit of the last search
//   Resift.mark("5", "relevant")       or "irrelevant", or "neutral", which takes a mark back
//   Resift.ext("fire")                 what makes a plain _search follow the session
//   Resift.forget()                    the session ends, here and on the server
//
// No promise of these is ever rejected, and nothing is thrown: Resift.error says what went wrong, and the page goes on
// without Resift. Attributes of the script: data-index, data-key (an API key that everybody may see: of the scopes
// search and feedback alone), data-timeout (milliseconds, 5000).

(() => {
  if (window.Resift) return; // a page may load this twice
  const script = document.currentScript ?? document.querySelector("script[src*='/resift.js']"); // a module has none
  const data = script ? script.dataset : {}, base = script ? new URL(".", script.src).href : "/";
  let memory = null; // the session where storage is blocked
  const FEEDBACK = "v1/feedback";
  const SKIPPED = 10; // hits above a clicked one that count against
  let query = "", searched, shown = [], clicked = new Set(); // the search that clicks are of
  let asked = 0; // searches so far: of several under way the last one counts
  let marking = Promise.resolve(); // marks that are under way: the next search waits for them
  const waiting = []; // marks that wait for an earlier one

  function remembered(session) {
    try {
      if (session !== undefined) sessionStorage.setItem("resift-session", session);
      return sessionStorage.getItem("resift-session");
    } catch {
      if (session !== undefined) memory = session;
      return memory;
    }
  }

  function random() {
    return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  }

  async function call(method, path, body) {
    const stop = new AbortController();
    const timer = setTimeout(() => stop.abort(), Number(Resift.timeout) || 5000);
    try {
      const headers = {};
      if (body) headers["Content-Type"] = "application/json";
      if (Resift.key) headers["X-Api-Key"] = Resift.key;
      // keepalive: a click arrives although it leads away from the page
      const response = await fetch(base + path, { method, headers, signal: stop.signal, keepalive: path === FEEDBACK, body: body && JSON.stringify(body) });
      const answer = await response.json();
      if (!response.ok) throw Object.assign(new Error(answer.error.message), { code: answer.error.code });
      Resift.error = null;
      return answer;
    } catch (error) {
      Resift.error = stop.signal.aborted ? new Error("Resift took too long to answer") : error;
      console.warn("Resift:", Resift.error.message);
      return null;
    } finally { clearTimeout(timer); }
  }

  // Under the name that was searched: an alias outlives its index. Where several have the id, under the hit's own.
  function tell(hit, marks) {
    const body = { index: hit ? searched : Resift.index, session: Resift.session, query, ...marks };
    const send = async () => {
      waiting.splice(waiting.indexOf(send), 1);
      const answer = await call("POST", FEEDBACK, body);
      if (answer || !hit || Resift.error?.code !== "ambiguous_document") return answer;
      return call("POST", FEEDBACK, { ...body, index: hit._index });
    };
    waiting.push(send);
    marking = marking.then(() => waiting.includes(send) ? send() : null);
    return marking;
  }

  // the page is left
  addEventListener("pagehide", () => [...waiting].forEach((send) => send()));

  // Pages that follow one another are one list.
  function remember(text, from, hits, index) {
    if (!from || text !== query) [shown, clicked] = [[], new Set()];
    [query, searched] = [text, index];
    shown = [...shown.slice(0, from), ...hits];
  }

  const found = (id) => shown.find((hit) => hit._id === String(id));

  const Resift = window.Resift = {
    index: data.index || "",
    key: data.key || "",
    timeout: data.timeout,
    error: null,

    get session() { return remembered() || remembered(random()); },

    // asks: a text, or a search body, with ext: Resift.ext(text); options: size, from, filter and all else that
    // /v1/search takes. A search for no hits (size: 0) leaves the one that clicks are of.
    async search(asks, options) {
      const { size = options?.size, from = options?.from, ext } = Object(asks);
      const mine = size === 0 ? null : ++asked;
      await marking;
      const body = { index: Resift.index, session: Resift.session, ...options, query: asks };
      const answer = await call("POST", "v1/search", body);
      const text = typeof asks === "string" ? asks : ext?.ml_inference?.query ?? "";
      if (mine === asked) remember(text, from ?? 0, answer ? answer.hits.hits : [], body.index);
      return answer;
    },

    // Hits above the clicked one were seen and left alone: they count a little against.
    async clicked(given) {
      const id = String(given); // a document's own id may be a number
      clicked.add(id);
      const hit = found(id);
      const above = shown.slice(0, shown.indexOf(hit)).filter((one) => one._index === hit?._index && !clicked.has(one._id));
      return tell(hit, { clicked: [id], skipped: above.slice(-SKIPPED).map((one) => one._id) });
    },

    async mark(given, how = "relevant") {
      return tell(found(given), { [how]: [String(given)] });
    },

    ext(text) {
      asked++;
      if (text !== query) remember(text, 0, []);
      return { ml_inference: { query: text, session: Resift.session } };
    },

    async forget() {
      await marking;
      const answer = await call("DELETE", `v1/sessions/${Resift.session}`);
      if (Resift.error?.code === "session_not_found") Resift.error = null; // nothing was marked
      remembered(random());
      return answer;
    },
  };
})();
