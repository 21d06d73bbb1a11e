"use strict";
// Use Resift in any web page: <script src="http://search.example:8080/resift.js" data-index="news"></script>
//
//   Resift.search("fire", {size: 10})  search; resolves to OpenSearch's response, or null if Resift does not answer
//   Resift.clicked("5")                the visitor opened a hit of the last search
//   Resift.mark("5", "relevant")       mark a hit as "relevant", "irrelevant" or "neutral" (withdraws a mark)
//   Resift.ext("fire")                 the `ext` of a plain _search that follows the session
//   Resift.forget()                    end the session, in the browser and on the server
//
// Functions never throw, and promises are never rejected: Resift.error is the last error, and the page works without
// Resift. Attributes of the script: data-index, data-key (an API key, visible to everybody, with the scopes search and
// feedback only), data-timeout (in milliseconds, default: 5000).

(() => {
  if (window.Resift) return; // the page loaded this script twice
  const script = document.currentScript ?? document.querySelector("script[src*='/resift.js']"); // null in modules
  const data = script ? script.dataset : {}, base = script ? new URL(".", script.src).href : "/";
  let memory = null; // the session, if storage is blocked
  const FEEDBACK = "v1/feedback";
  const SKIPPED = 10; // maximum number of hits above a click that count as skipped
  let query = "", searched, shown = [], clicked = new Set(); // the last search, to which clicks belong
  let asked = 0; // number of searches; of concurrent searches, the last one counts
  let marking = Promise.resolve(); // marks that are being sent; the next search waits for them
  const waiting = []; // marks that wait for earlier marks

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
      // keepalive: a click is sent although it leaves the page.
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

  // Send marks with the name that was searched, since an alias outlives its indices. If several of these indices contain
  // a document with the id, send the marks again with the hit's own index.
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

  // Send waiting marks when the visitor leaves the page.
  addEventListener("pagehide", () => [...waiting].forEach((send) => send()));

  // Pages of the same search form one list.
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

    // asks: a text, or a search body with ext: Resift.ext(text); options: size, from, filter and other options of
    // /v1/search. Clicks after a search for no hits (size: 0) belong to the search before it.
    async search(asks, options) {
      const { size = options?.size, from = options?.from, ext } = Object(asks);
      const mine = size === 0 ? null : ++asked;
      await marking;
      const body = { index: Resift.index, session: Resift.session, ...options, query: asks };
      const answer = await call("POST", "v1/search", body);
      const text = typeof asks === "string" ? asks : (ext?.resift ?? ext?.ml_inference)?.query ?? "";
      if (mine === asked) remember(text, from ?? 0, answer ? answer.hits.hits : [], body.index);
      return answer;
    },

    // Hits above a clicked hit were probably seen and skipped: they count as slightly irrelevant.
    async clicked(given) {
      const id = String(given); // ids of documents may be numbers
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
      return { resift: { query: text, session: Resift.session } };
    },

    async forget() {
      await marking;
      const answer = await call("DELETE", `v1/sessions/${Resift.session}`);
      if (Resift.error?.code === "session_not_found") Resift.error = null; // the session has no marks
      remembered(random());
      return answer;
    },
  };
})();
