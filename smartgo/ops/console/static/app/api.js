// The only client of the API: sessions and their CSRF token, problems as errors, pages, jobs, live events.
import { signal } from "./html.js";

const PREFIX = "/api/v1";

// The session as GET /session returns it; null until it has answered.
export const session = signal(null);
// Whether a login is required before any other request.
export const loginWanted = signal(false);
// Whether the last request reached the server.
export const online = signal(true);

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `HTTP ${status}`);
    this.status = status;
    this.code = problem.code ?? "";
    this.requestId = problem.requestId ?? "";
  }
}

// Return a path with each part percent-encoded once: path`/topics/${name}/queues`.
export function path(strings, ...parts) {
  return strings.reduce((whole, text, at) => whole + encodeURIComponent(parts[at - 1]) + text);
}

export function queryText(query) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value === null || value === undefined || value === "") continue;
    for (const one of Array.isArray(value) ? value : [value]) found.append(name, one);
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}

async function problemOf(answer) {
  try {
    return await answer.json();
  } catch {
    return { title: answer.statusText };
  }
}

async function ask(method, where, { query, body, signal: abort } = {}) {
  const headers = { Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (method !== "GET" && session.value?.csrfToken) headers["X-CSRF-Token"] = session.value.csrfToken;
  let answer;
  try {
    answer = await fetch(PREFIX + where + queryText(query), {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: abort,
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name !== "AbortError") online.value = false;
    throw error;
  }
  online.value = true;
  if (answer.ok) return answer;
  const error = new ApiError(answer.status, await problemOf(answer));
  if (error.status === 401 && where !== "/session") loginWanted.value = true;
  throw error;
}

async function json(answer) {
  return answer.status === 204 ? null : answer.json();
}

export const get = async (where, query, abort) => json(await ask("GET", where, { query, signal: abort }));
export const post = async (where, body, query) => json(await ask("POST", where, { body: body ?? {}, query }));
export const put = async (where, body) => json(await ask("PUT", where, { body }));
export const patch = async (where, body) => json(await ask("PATCH", where, { body }));
export const del = async (where, query) => json(await ask("DELETE", where, { query }));

// Return all rows of a list, page by page, up to a limit: for exports and small lists only.
export async function all(where, query, limit = 2000) {
  const rows = [];
  let cursor = "";
  do {
    const page = await get(where, { ...query, limit: 200, cursor });
    rows.push(...page.items);
    cursor = page.next;
  } while (cursor && rows.length < limit);
  return rows;
}

// Return a link with which the browser saves a long answer as it arrives, without keeping it in the page.
export const addressOf = (where, query) => PREFIX + where + queryText(query);

// Fetch an answer that is not JSON, for downloads.
export async function file(where, query) {
  const answer = await ask("GET", where, { query });
  return answer.blob();
}

// -- the session -------------------------------------------------------------------------------------------------

export async function whoAmI() {
  session.value = await get("/session");
  loginWanted.value = session.value.loginNeeded && session.value.scopes.length === 0;
}

export async function logIn(with_) {
  session.value = await post("/session", with_);
  loginWanted.value = false;
}

export async function logOut() {
  await ask("DELETE", "/session");
  await whoAmI();
}

export function may(scope) {
  const scopes = session.value?.scopes ?? [];
  return scopes.includes("admin") || scopes.includes(scope);
}

// Whether the session is an account's whose rights depend on the topic and the group.
export const limited = () => session.value?.limited ?? false;

// -- jobs --------------------------------------------------------------------------------------------------------

// Follow a job until it ends; `told` is called with each state.
export async function follow(id, told, abort) {
  for (let wait = 150; ; wait = Math.min(wait * 1.5, 1500)) {
    const job = await get(path`/jobs/${id}`, null, abort);
    told(job);
    if (job.state !== "running") return job;
    await new Promise((resolve, reject) => {
      const timer = setTimeout(resolve, wait);
      abort?.addEventListener("abort", () => {
        clearTimeout(timer);
        reject(new DOMException("left", "AbortError"));
      });
    });
  }
}

// -- live events -------------------------------------------------------------------------------------------------

const EASY = 1000;
const HARD = 30000;

// Listen to server-sent events and reconnect after every break; returns a function that stops it.
// `handlers` are keyed by the event's name, `open` and `lost`. Without `unseen`, it pauses while nobody
// sees the page: browsers allow six connections to a host, all tabs together.
export function listen(where, query, handlers, unseen = false) {
  let source = null;
  let timer = null;
  let wait = EASY;
  let over = false;

  function close() {
    clearTimeout(timer);
    source?.close();
    source = null;
  }

  function seen() {
    if (document.hidden) close();
    else if (!source) open();
  }

  function open() {
    clearTimeout(timer);
    source = new EventSource(PREFIX + where + queryText(query));
    source.onopen = () => {
      wait = EASY;
      online.value = true;
      handlers.open?.();
    };
    // The browser does not reconnect after an error answer; this code does.
    source.onerror = () => {
      close();
      handlers.lost?.();
      if (!over) {
        timer = setTimeout(open, wait);
        wait = Math.min(wait * 2, HARD);
      }
    };
    for (const [name, handler] of Object.entries(handlers)) {
      if (name === "open" || name === "lost") continue;
      source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
  }

  if (!unseen) document.addEventListener("visibilitychange", seen);
  if (unseen || !document.hidden) open();
  return () => {
    over = true;
    document.removeEventListener("visibilitychange", seen);
    close();
  };
}
