// The map of embeddings on a canvas: drag, wheel, pinch or keys to move, names where there is room, a click to go there.

import { ofRun } from "./api.js";
import { h } from "./dom.js";
import { drawMap } from "./canvas.js";
import { go, keep } from "./route.js";
import { typeahead } from "./typeahead.js";
import { groupWords } from "./words.js";

const COLOURS = { type: "Type", community: "Community", degree: "Facts" };

export async function map(run, parameters) {
  const colour = parameters.colour in COLOURS ? parameters.colour : "type";
  const [points, place] = await Promise.all([
    ofRun(run.key, "map", { colour }),
    parameters.at ? ofRun(run.key, "map/place", { name: parameters.at }).catch(() => null) : null,
  ]);
  const canvas = h("canvas", { tabindex: "0", role: "img", "aria-label": "Map of the embeddings. Arrow keys move, plus and minus zoom." });
  const tip = h("div", { class: "tip", hidden: true });
  const frame = h("div", { class: "map-frame" }, canvas, tip);
  const state = { x: Number(parameters.x) || 0, y: Number(parameters.y) || 0, zoom: Number(parameters.zoom) || 1 };
  const kept = () => keep("map", {
    colour: colour === "type" ? undefined : colour, at: parameters.at,
    ...(state.zoom === 1 && !state.x && !state.y ? {} : { x: state.x.toFixed(3), y: state.y.toFixed(3), zoom: state.zoom.toFixed(2) }),
  });
  const view = drawMap(canvas, tip, points, state, {
    marked: place, moved: kept, open: (identifier) => go("entity", { name: identifier }),
  });
  if (place && !parameters.zoom) view.centre(place.x, place.y, 4);
  const legend = points.groups.map((name, group) => h("button", {
    class: `legend-entry group-${group % 10}`, "aria-pressed": "false", title: name,
    onclick: (event) => {
      const only = view.highlight(group);
      legend.forEach((entry) => entry.setAttribute("aria-pressed", String(only !== null && entry === event.currentTarget)));
    },
  }, h("i", {}), groupWords(name)));
  return [
    h("div", { class: "title map-title" },
      h("h1", {}, "Map"),
      typeahead({ label: "Find on the map", placeholder: "Find on the map …", kinds: ["entities"], choose: (_, item) => item && go("map", { colour: parameters.colour, at: item.identifier }) }),
      h("div", { class: "segments", role: "group", "aria-label": "Colour by" }, Object.entries(COLOURS).map(([name, text]) =>
        h("button", { "aria-pressed": String(name === colour), onclick: () => go("map", { ...parameters, run: undefined, colour: name }) }, text))),
      h("div", { class: "segments", role: "group", "aria-label": "Zoom" },
        h("button", { "aria-label": "Nearer", onclick: () => view.zoomBy(1.5) }, "+"),
        h("button", { "aria-label": "Farther", onclick: () => view.zoomBy(1 / 1.5) }, "−"),
        h("button", { "aria-label": "All of it", onclick: () => view.reset() }, "⤢"))),
    frame,
    h("div", { class: "map-legend" }, legend.length ? legend : h("span", { class: "ramp" }, "few facts", h("i", {}), "many facts")),
    h("p", { class: "quiet small" }, points.method === "neighbours"
      ? "A neighbour embedding (t-SNE): what lies close together is alike; how far apart groups lie says little"
      : `Two principal components of the embeddings, which hold ${Math.round(100 * points.explained)} % of their variance. pip install 'transher[map]' for a map that keeps neighbours together`,
      points.sampled ? "; a sample of the entities." : "."),
  ];
}
