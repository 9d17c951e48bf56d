// Requests to the server. The token is kept for this tab only, and never in an address.
const TOKEN = "muster-token";

export class Refusal extends Error {
  constructor(status, body) {
    super(body.message || `the server answered ${status}`);
    this.status = status;
    this.hint = body.hint || "";
    this.body = body;
  }
}

export function setToken(token) {
  if (token) sessionStorage.setItem(TOKEN, token);
  else sessionStorage.removeItem(TOKEN);
}

export async function request(path, options = {}) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const response = await fetch(path, { ...options, headers, cache: "no-store", credentials: "omit", redirect: "error" });
  if (response.ok) return response;
  let body = {};
  try {
    body = await response.json();
  } catch {
    /* an answer without words: its status says it */
  }
  throw new Refusal(response.status, body);
}

export const read = async (path, options) => (await request(path, options)).json();
export const gangPath = (key) => `/api/gangs/${key.split("/").map(encodeURIComponent).join("/")}`;
export const ask = (path, body, signal) =>
  read(path, { method: "POST", body: JSON.stringify(body), headers: { "Content-Type": "application/json" }, signal });
