// Drawing and moving the map. The frame goes from −1 to 1 on either axis, and almost all points with it.

import { shown as writtenOut } from "./dom.js";
import { plainLabel } from "./words.js";

const FAR = 60, NAMES = 40;

export function drawMap(canvas, tip, points, state, { marked, moved, open }) {
  const context = canvas.getContext("2d");
  const { scaleX, scaleY, cx, cy } = extent(points);
  const order = [...points.x.keys()].sort((a, b) => points.degree[b] - points.degree[a]);
  const most = Math.log10(1 + Math.max(...points.degree, 1));
  const place = (x, y) => [(x - cx) * scaleX, (cy - y) * scaleY];
  let only = null, hovered = -1, waiting = false, width = 0, height = 0, sizeX = 1, sizeY = 1;

  const styles = getComputedStyle(document.documentElement);
  const colourOf = (name) => styles.getPropertyValue(name).trim();
  const screen = (x, y) => [width / 2 + (x - state.x) * sizeX * state.zoom, height / 2 + (y - state.y) * sizeY * state.zoom];

  function draw() {
    waiting = false;
    const ratio = devicePixelRatio || 1;
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    sizeX = Math.min(width, 1.8 * height) / 2.15;
    sizeY = Math.min(height, 1.8 * width) / 2.15;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const colours = points.groups.map((name, group) => colourOf(name === "others" ? "--muted" : `--group-${group % 10}`));
    const low = colourOf("--ramp-low"), high = colourOf("--ramp-high");
    const top = Math.max(...points.colour, 1e-9);
    const shown = [];
    for (let turn = order.length - 1; turn >= 0; turn--) { // the best connected last, on top
      const point = order[turn];
      const [x, y] = screen(...place(points.x[point], points.y[point]));
      if (x < -9 || y < -9 || x > width + 9 || y > height + 9) continue;
      const group = points.colour[point];
      const faded = only !== null && group !== only;
      context.globalAlpha = faded ? 0.06 : points.groups.length ? 0.72 : 0.9;
      context.fillStyle = points.groups.length ? colours[group] : `color-mix(in oklab, ${high} ${Math.round((100 * group) / top)}%, ${low})`;
      const radius = (1.1 + 3.2 * (Math.log10(1 + points.degree[point]) / most)) * Math.min(2, Math.sqrt(state.zoom));
      context.beginPath();
      context.arc(x, y, radius, 0, 7);
      context.fill();
      if (!faded) shown.push([point, x, y, radius]);
    }
    context.globalAlpha = 1;
    names(shown.reverse());
    if (marked) ring(...screen(...place(marked.x, marked.y)), writtenOut(plainLabel(marked.entity.name, marked.entity.identifier)));
  }

  function names(shown) {
    const taken = [];
    context.font = "12px system-ui, sans-serif";
    context.textAlign = "center";
    context.lineWidth = 3;
    context.lineJoin = "round";
    for (const [point, x, y, radius] of shown.slice(0, 400)) {
      const name = writtenOut(plainLabel(points.names[point], points.identifiers[point]));
      const text = name.length > 28 ? `${name.slice(0, 27)}…` : name;
      const half = context.measureText(text).width / 2 + 4, line = y - radius - 5;
      if (points.identifiers[point] === marked?.entity.identifier || x < half || x > width - half || line < 14) continue;
      if (taken.some(([ox, oy, other]) => Math.abs(ox - x) < other + half && Math.abs(oy - line) < 16)) continue;
      taken.push([x, line, half]);
      write(text, x, line);
      if (taken.length >= NAMES) break;
    }
  }

  function write(text, x, y) {
    context.strokeStyle = colourOf("--card");
    context.fillStyle = colourOf("--ink");
    context.strokeText(text, x, y);
    context.fillText(text, x, y);
  }

  function ring(x, y, name) {
    context.strokeStyle = colourOf("--guess");
    context.lineWidth = 2.5;
    context.beginPath();
    context.arc(x, y, 11, 0, 7);
    context.stroke();
    context.font = "600 13px system-ui, sans-serif";
    context.lineWidth = 4;
    write(name, x, y - 17);
  }

  const redraw = () => { if (!waiting) { waiting = true; requestAnimationFrame(draw); } };
  const change = () => { redraw(); clearTimeout(change.timer); change.timer = setTimeout(() => canvas.isConnected && moved(), 300); };

  function zoomAt(px, py, factor) {
    const zoom = Math.min(FAR, Math.max(0.5, state.zoom * factor));
    const ux = (px - width / 2) / sizeX, uy = (py - height / 2) / sizeY;
    state.x += ux / state.zoom - ux / zoom;
    state.y += uy / state.zoom - uy / zoom;
    state.zoom = zoom;
    change();
  }

  function nearest(px, py) {
    let best = -1, least = 14 * 14;
    for (const point of order) {
      const [x, y] = screen(...place(points.x[point], points.y[point]));
      const distance = (x - px) ** 2 + (y - py) ** 2;
      if (distance < least && (only === null || points.colour[point] === only)) [best, least] = [point, distance];
    }
    return best;
  }

  function hover(px, py) {
    hovered = nearest(px, py);
    tip.hidden = hovered < 0;
    canvas.classList.toggle("pointing", hovered >= 0);
    if (hovered < 0) return;
    tip.textContent = writtenOut(points.names[hovered]);
    tip.style.left = `${Math.min(px + 12, width - 160)}px`;
    tip.style.top = `${py + 14}px`;
  }

  const fingers = new Map();
  let travelled = 0;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, [event.offsetX, event.offsetY]);
    travelled = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = fingers.get(event.pointerId);
    if (!before) return hover(event.offsetX, event.offsetY);
    const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1];
    const now = [event.offsetX, event.offsetY];
    if (other) {
      const spread = (at) => Math.hypot(at[0] - other[0], at[1] - other[1]);
      zoomAt((now[0] + other[0]) / 2, (now[1] + other[1]) / 2, spread(now) / Math.max(1, spread(before)));
    } else {
      state.x -= (now[0] - before[0]) / sizeX / state.zoom;
      state.y -= (now[1] - before[1]) / sizeY / state.zoom;
      change();
    }
    travelled += Math.hypot(now[0] - before[0], now[1] - before[1]);
    fingers.set(event.pointerId, now);
  });
  for (const ending of ["pointerup", "pointercancel"]) canvas.addEventListener(ending, (event) => {
    fingers.delete(event.pointerId);
    if (ending === "pointerup" && travelled < 6) {
      const point = nearest(event.offsetX, event.offsetY);
      if (point >= 0) open(points.identifiers[point]);
    }
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoomAt(event.offsetX, event.offsetY, Math.exp(-event.deltaY / 400));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const step = 0.15 / state.zoom;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    if (event.key in moves) {
      state.x += moves[event.key][0];
      state.y += moves[event.key][1];
      change();
    } else if (event.key === "+" || event.key === "=") zoomAt(width / 2, height / 2, 1.4);
    else if (event.key === "-") zoomAt(width / 2, height / 2, 1 / 1.4);
    else return;
    event.preventDefault();
  });
  new ResizeObserver(redraw).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  return {
    zoomBy: (factor) => zoomAt(width / 2, height / 2, factor),
    reset: () => { Object.assign(state, { x: 0, y: 0, zoom: 1 }); change(); },
    highlight: (group) => { only = only === group ? null : group; redraw(); return only; },
    centre: (x, y, zoom) => { [state.x, state.y] = place(x, y); state.zoom = zoom; change(); },
  };
}

// The middle of the points and how to bring almost all of them into the frame, whatever the outliers.
function extent(points) {
  const at = (values, share) => [...values].sort((a, b) => a - b)[Math.floor(share * (values.length - 1))] ?? 0;
  const [left, right, low, high] = [at(points.x, 0.002), at(points.x, 0.998), at(points.y, 0.002), at(points.y, 0.998)];
  return { cx: (left + right) / 2, cy: (low + high) / 2, scaleX: 2 / Math.max(right - left, 1e-9), scaleY: 2 / Math.max(high - low, 1e-9) };
}
