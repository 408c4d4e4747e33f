// Requests to the API. A refusal under load is tried again after the time that it names.

const TOKEN = "transher-token";

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.reason ?? `The server answered ${status}.`);
    this.status = status;
  }
}

export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

function address(path, parameters) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  const query = new URLSearchParams(given).toString();
  return query ? `${path}?${query}` : path;
}

function authorization() {
  const token = sessionStorage.getItem(TOKEN);
  return token ? { authorization: `Bearer ${token}` } : {};
}

async function request(path, parameters, signal, body) {
  const headers = authorization();
  const sent = body ? { method: "POST", body: JSON.stringify(body), headers: { ...headers, "content-type": "application/json" } } : { headers };
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(`/api/${address(path, parameters)}`, { ...sent, signal });
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    if (![429, 503].includes(response.status) || attempt === 3) throw new ApiError(response.status, problem);
    const seconds = Number(response.headers.get("retry-after")) || 1;
    await new Promise((done) => setTimeout(done, 1000 * seconds * (1 + Math.random())));
  }
}

// One request as it is, and whatever comes back: for those who try out the API.
export async function ask(path, parameters, { method, body }) {
  const start = performance.now();
  const headers = { ...authorization(), ...(body ? { "content-type": "application/json" } : {}) };
  const response = await fetch(address(path, parameters), { method, headers, body });
  const text = await response.text();
  const shown = response.headers.get("content-type")?.includes("json") ? JSON.stringify(JSON.parse(text), null, 2) : text;
  return { status: response.status, text: shown, milliseconds: performance.now() - start };
}

export async function get(path, parameters = {}, signal = undefined) {
  return (await request(path, parameters, signal)).json();
}

export const ofRun = (run, path, parameters, signal) => get(`runs/${encodeURIComponent(run)}/${path}`, parameters, signal);

export async function send(run, path, body) {
  return (await request(`runs/${encodeURIComponent(run)}/${path}`, {}, undefined, body)).json();
}

export async function download(run, path, parameters, file) {
  save(await (await request(`runs/${encodeURIComponent(run)}/${path}`, parameters)).blob(), file);
}

export function save(blob, file) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
