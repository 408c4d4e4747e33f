// Requests to the API. A refusal under load is tried again after the time that it names.

const TOKEN = "transher-token";

export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.reason ?? `The server answered ${status}.`);
    this.status = status;
  }
}

export const keepToken = (token) => sessionStorage.setItem(TOKEN, token);

async function request(path, parameters, signal) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  const query = new URLSearchParams(given).toString();
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { authorization: `Bearer ${token}` } : {};
  for (let attempt = 0; ; attempt++) {
    const response = await fetch(`/api/${path}${query ? `?${query}` : ""}`, { headers, signal });
    if (response.ok) return response;
    const problem = await response.json().catch(() => ({}));
    if (![429, 503].includes(response.status) || attempt === 3) throw new ApiError(response.status, problem);
    const seconds = Number(response.headers.get("retry-after")) || 1;
    await new Promise((done) => setTimeout(done, 1000 * seconds * (1 + Math.random())));
  }
}

export async function get(path, parameters = {}, signal = undefined) {
  return (await request(path, parameters, signal)).json();
}

export const ofRun = (run, path, parameters, signal) => get(`runs/${encodeURIComponent(run)}/${path}`, parameters, signal);

export async function download(run, path, parameters, file) {
  const blob = await (await request(`runs/${encodeURIComponent(run)}/${path}`, parameters)).blob();
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
