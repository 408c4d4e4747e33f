// An entity among its neighbours: known edges drawn through, predicted ones dashed. Rings, then a little repulsion.

import { h, svg } from "./dom.js";
import { link } from "./route.js";
import { plainName, relationWords } from "./words.js";

// A phone gets a drawing of its own, upright and with fewer neighbours, as its letters would shrink with a wide one.
const WIDE = { width: 640, height: 420, known: 14, predicted: 6, label: 20 };
const UPRIGHT = { width: 320, height: 430, known: 10, predicted: 4, label: 14 };

export function neighbourhood(view, predictions) {
  const shape = matchMedia("(max-width: 540px)").matches ? UPRIGHT : WIDE;
  const nodes = [...knownNodes(view, shape.known), ...predictedNodes(view, predictions, shape.predicted)];
  if (!nodes.length) return h("p", { class: "quiet" }, "Nothing to draw.");
  layOut(nodes, shape);
  const centre = { x: shape.width / 2, y: shape.height / 2 };
  const self = short(plainName(view.entity), 26);
  const name = shape === UPRIGHT ? "graph upright" : "graph";
  const drawing = svg("svg", { viewBox: `0 0 ${shape.width} ${shape.height}`, class: name, role: "group", "aria-label": "Neighbourhood" },
    nodes.map((node) => edge(centre, node, self.length)),
    nodes.map((node) => dot(node, shape)),
    svg("g", { class: "self" }, svg("circle", { cx: centre.x, cy: centre.y, r: 9 }),
      svg("text", { x: centre.x, y: centre.y - 15, "text-anchor": "middle" }, self)));
  return [drawing, h("p", { class: "legend" },
    h("span", { class: "key known" }), "known ", h("span", { class: "key predicted" }), "predicted")];
}

// One of every relation first, then the second of each, so that all kinds are seen.
function knownNodes(view, most) {
  const nodes = new Map();
  for (let turn = 0; nodes.size < most && turn < 12; turn++) {
    for (const group of view.facts) {
      const other = group.others[turn];
      if (!other || nodes.size >= most || other.identifier === view.entity.identifier) continue;
      if (!nodes.has(other.identifier)) nodes.set(other.identifier, { entity: other, relation: group.relation, known: true, likely: 1 });
    }
  }
  return [...nodes.values()].sort((a, b) => a.relation.identifier.localeCompare(b.relation.identifier));
}

function predictedNodes(view, predictions, most) {
  const seen = new Set(view.facts.flatMap((group) => group.others.map((other) => other.identifier)));
  const nodes = [];
  for (const fact of predictions) {
    const other = fact.head.identifier === view.entity.identifier ? fact.tail : fact.head;
    if (seen.has(other.identifier) || other.identifier === view.entity.identifier) continue;
    seen.add(other.identifier);
    nodes.push({ entity: other, relation: fact.relation, known: false, likely: fact.probability ?? 0.5 });
    if (nodes.length === most) break;
  }
  return nodes;
}

function layOut(nodes, { width, height }) {
  nodes.forEach((node, place) => {
    const angle = (2 * Math.PI * (place + 0.5)) / nodes.length - Math.PI / 2;
    const reach = (place % 2 ? 0.72 : 1) * (nodes.length > 7 ? 1 : 0.85);
    node.x = width / 2 + Math.cos(angle) * width * 0.37 * reach;
    node.y = height / 2 + Math.sin(angle) * height * 0.4 * reach;
  });
  for (let round = 0; round < 60; round++) { // labels are wide: push apart those on the same line
    for (const a of nodes) for (const b of nodes) {
      if (a === b) continue;
      const dx = a.x - b.x, dy = a.y - b.y;
      if (Math.abs(dx) < 120 && Math.abs(dy) < 30) a.y += (dy >= 0 ? 1 : -1) * (30 - Math.abs(dy)) * 0.2;
    }
    for (const node of nodes) node.y = Math.min(height - 22, Math.max(24, node.y));
  }
}

// An edge's word stands half-way, or farther out where it would meet the name in the middle. Both in units of the drawing, by the letter.
function edge(from, node, letters) {
  const words = short(relationWords(node.relation.name).split(" · ").pop(), 20);
  const flat = Math.abs(node.y - from.y) < 60;
  const part = flat ? Math.min(0.7, Math.max(0.55, (6 + 4.6 * letters + 3.4 * words.length) / Math.abs(node.x - from.x))) : 0.55;
  const x = from.x + (node.x - from.x) * part, y = from.y + (node.y - from.y) * part;
  let turn = (Math.atan2(node.y - from.y, node.x - from.x) * 180) / Math.PI;
  if (turn > 90 || turn < -90) turn += 180;
  return svg("g", { class: node.known ? "edge known" : "edge predicted" },
    svg("line", { x1: from.x, y1: from.y, x2: node.x, y2: node.y }),
    svg("text", { x, y: y - 4, "text-anchor": "middle", transform: `rotate(${turn.toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)})` },
      words));
}

function dot(node, shape) {
  const below = node.y > shape.height / 2;
  return svg("a", { href: link("entity", { name: node.entity.identifier }), class: node.known ? "node known" : "node predicted" },
    svg("title", {}, `${node.entity.name} (${relationWords(node.relation.name)}${node.known ? "" : ", predicted"})`),
    svg("circle", { cx: node.x, cy: node.y, r: 6 }),
    svg("text", { x: node.x, y: node.y + (below ? 19 : -11), "text-anchor": "middle" }, short(plainName(node.entity), shape.label)));
}

const short = (text, length) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
