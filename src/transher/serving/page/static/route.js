// Every view is its address: #/view?run=…&name=…

let runs = [];
export const setRuns = (views) => { runs = views; };
export const allRuns = () => runs;

export function current() {
  const [view, query] = location.hash.replace(/^#\/?/, "").split("?");
  const parameters = Object.fromEntries(new URLSearchParams(query ?? ""));
  const run = runs.find((candidate) => candidate.key === parameters.run) ?? runs[0];
  return { view: view || "home", run, parameters };
}

export function link(view, parameters = {}, run = current().run) {
  const given = Object.entries({ ...parameters, run: runs.length > 1 ? run.key : undefined });
  const query = new URLSearchParams(given.filter(([, value]) => value !== undefined && value !== null && value !== ""));
  const text = query.toString();
  return `#/${view === "home" ? "" : view}${text ? `?${text}` : ""}`;
}

export const go = (view, parameters, run) => { location.hash = link(view, parameters, run); };

// The address changes with the view, without drawing it anew: as a step to go back from, or in place.
export const step = (view, parameters) => history.pushState(null, "", link(view, parameters));
export const keep = (view, parameters) => history.replaceState(null, "", link(view, parameters));
