// Requests to the HTTP API, and values that the browser stores for the page.

// Values where storage is blocked.
const memory = {};

/**
 * Return the stored value of a name, after setting it if a value is passed. `storage` is "localStorage" or
 * "sessionStorage". If the browser blocks storage, values last as long as the page.
 */
export function stored(storage, name, value) {
  if (value !== undefined) memory[name] = value;
  try {
    if (value !== undefined) window[storage].setItem(name, value);
    return window[storage].getItem(name) ?? "";
  } catch {
    return memory[name] ?? "";
  }
}

/** Return the API key that was entered in this tab, or "", after setting it if a key is passed. */
export const ownKey = (key) => stored("sessionStorage", "resift-key", key);

/** An error response of the API. */
export class ApiError extends Error {
  constructor(status, { code, message, expected }) {
    super(message);
    Object.assign(this, { status, code, expected });
  }
}

/** The service does not answer. */
export class Unreachable extends Error {}

/** Send a request, and return the response as JSON or a blob. Throws ApiError, Unreachable, or AbortError if it was aborted. */
export async function call(method, path, body, signal, kind = "json") {
  const headers = body ? { "Content-Type": "application/json" } : {}, key = ownKey();
  if (key) headers["X-Api-Key"] = key;
  let response, answer;
  try {
    response = await fetch(path, { method, headers, signal, body: body && JSON.stringify(body) });
    answer = await response[response.ok ? kind : "json"]();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable(error.message);
  }
  if (!response.ok) throw new ApiError(response.status, answer.error ?? { code: "http_error", message: `HTTP ${response.status}` });
  return answer;
}

export const newId = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

// Sessions of this browser, one per line.
const OWN = "resift-sessions", MOST_OWN = 20;
const ownSessions = () => stored("localStorage", OWN).split("\n");

/** Return whether this browser started or adopted a session. Other sessions may have been chosen by somebody else. */
export const isOwn = (id) => ownSessions().includes(id);

/** Remember a session as one that this browser started or adopted, and return its id. */
export function adopt(id) {
  stored("localStorage", OWN, [id, ...ownSessions().filter((one) => one && one !== id)].slice(0, MOST_OWN).join("\n"));
  return id;
}

const path = (id) => `v1/sessions/${encodeURIComponent(id)}`;

/** Return a session; null if it does not exist, has expired, or this API key may not read it. */
export async function load(id, signal) {
  if (!id) return null;
  try {
    return await call("GET", path(id), undefined, signal);
  } catch (error) {
    if (["session_not_found", "forbidden"].includes(error.code)) return null;
    throw error;
  }
}

const NAMES = { 1: "relevant", "-1": "irrelevant", 0: "neutral" };

/** Judge one document: 1, -1, or 0 to withdraw its judgement. Resolves to the session and what it has learned. */
export const judge = (session, { index, document, query }, grade) => call("POST", "v1/feedback", { session, index, query, [NAMES[grade]]: [document], explain: true });

export const undo = (id) => call("POST", `${path(id)}/undo`);
export const forget = (id) => call("DELETE", path(id));

/** Return the judgements of a session that count. */
export const marks = (session) => (session?.judgements ?? []).filter((one) => one.counts);
