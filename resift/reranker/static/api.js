// Calls of the HTTP API, and what the browser keeps for the page.

const memory = {};

/** What the browser keeps under a name, first set to a value if there is one. Where that is blocked, the page does. */
export function kept(storage, name, value) {
  if (value !== undefined) memory[name] = value;
  try {
    if (value !== undefined) window[storage].setItem(name, value);
    return window[storage].getItem(name) ?? "";
  } catch {
    return memory[name] ?? "";
  }
}

/** The key that was given in this tab, "" without one. */
export const ownKey = (key) => kept("sessionStorage", "resift-key", key);

/** An answer that is an error. */
export class ApiError extends Error {
  constructor(status, { code, message, expected }) {
    super(message);
    Object.assign(this, { status, code, expected });
  }
}

export class Unreachable extends Error {}

/** The answer to a request, as JSON or a blob. Raises ApiError, Unreachable, or AbortError where it was given up. */
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

const path = (id) => `v1/sessions/${encodeURIComponent(id)}`;

/** What is kept of a session; null for one that has not begun, is over, or is not to be seen with this key. */
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

export const marks = (session) => (session?.judgements ?? []).filter((one) => one.counts);
