// Calls of the HTTP API. Where the service has keys, the one that the user gave is sent, and kept in this tab.

const KEY = "resift-key";
const PATIENCE = 40_000; // milliseconds: longer than the service itself lets a request take

/** An answer that is an error: its stable code, what was wrong, and what was expected. */
export class ApiError extends Error {
  constructor(status, { code, message, expected }) {
    super(message);
    Object.assign(this, { status, code, expected });
  }
}

/** Nobody answers: the network or the service is away. */
export class Unreachable extends Error {}

let memory = ""; // the key where the browser keeps nothing for this page

function givenKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return memory;
  }
}

export const hasKey = () => Boolean(givenKey());

export function setKey(key) {
  memory = key;
  try {
    sessionStorage.setItem(KEY, key);
  } catch {} // storage is blocked
}

/** The JSON answer to a request. Raises ApiError, Unreachable, or AbortError where it was given up. */
export async function call(method, path, body, { signal, keepalive } = {}) {
  const headers = body === undefined ? {} : { "Content-Type": "application/json" };
  if (hasKey()) headers["X-Api-Key"] = givenKey();
  const late = AbortSignal.timeout(PATIENCE);
  let response, answer;
  try {
    const both = signal ? AbortSignal.any([signal, late]) : late;
    response = await fetch(path, { method, headers, keepalive, signal: both, body: body === undefined ? undefined : JSON.stringify(body) });
    answer = await response.json();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable(error.message);
  }
  if (!response.ok) throw new ApiError(response.status, answer.error ?? { code: "http_error", message: `HTTP ${response.status}` });
  return answer;
}
