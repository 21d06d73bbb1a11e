// The session on the server: marks, undo, copies.

import { ApiError, call } from "./api.js";

export const newId = () => crypto.randomUUID?.() ?? [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const path = (id) => `v1/sessions/${encodeURIComponent(id)}`;

/** What is kept of a session; null for one that has not begun, or is over. */
export async function load(id, signal) {
  if (!id) return null;
  try {
    return await call("GET", path(id), undefined, { signal });
  } catch (error) {
    if (error instanceof ApiError && error.code === "session_not_found") return null;
    throw error;
  }
}

const NAMES = { 1: "relevant", "-1": "irrelevant", 0: "neutral" };

/** Judge one document: 1, -1, or 0 to take that back. */
export const judge = (id, { index, document, query }, grade, options) =>
  call("POST", "v1/feedback", { session: id, index, query, [NAMES[grade]]: [document] }, options);

export const undo = (id) => call("POST", `${path(id)}/undo`);
export const forget = (id) => call("DELETE", path(id));
export const copy = (session, id) => call("PUT", path(id), { judgements: session.judgements.map(({ counts, ...one }) => one) });

/** The grade that counts of each judged document, by the key of its hit. */
export const grades = (session) =>
  new Map((session?.judgements ?? []).filter((one) => one.counts).map(({ index, document, grade }) => [JSON.stringify([index, document]), grade]));
