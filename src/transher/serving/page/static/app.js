// The frame: header, run, and the view that the address names.

import { get, keepToken } from "./api.js";
import { h } from "./dom.js";
import { failure } from "./parts.js";
import { allRuns, current, go, link, setRuns } from "./route.js";
import { typeahead } from "./typeahead.js";
import { ask } from "./ask.js";
import { entity } from "./entity.js";
import { home } from "./home.js";
import { map } from "./map.js";
import { relation, relations } from "./relation.js";
import { search } from "./search.js";
import { verdicts } from "./verdicts.js";

const VIEWS = { home, entity, ask, relation, relations, map, search, verdicts };
const LINKS = [["home", "Find"], ["ask", "Ask"], ["relations", "Relations"], ["map", "Map"], ["verdicts", "Checked"]];
const main = document.getElementById("main");

function header({ view, run }) {
  const chosen = view === "relation" ? "relations" : view === "entity" || view === "search" ? "home" : view;
  document.getElementById("top").replaceChildren(
    h("a", { class: "brand", href: link("home"), "aria-label": "transher, first page" },
      h("img", { src: "/static/icon.svg", alt: "", width: 26, height: 26 }), "transher"),
    h("nav", { "aria-label": "Views" }, LINKS.map(([name, text]) =>
      h("a", { href: link(name), "aria-current": name === chosen ? "page" : null }, text))),
    view === "home" || view === "map" ? h("span", { class: "spring" }) : typeahead({
      label: "Find an entity or a relation", placeholder: "Find a name …", kinds: ["entities", "relations"],
      className: "compact",
      choose: (kind, item) => item && go(kind === "relations" ? "relation" : "entity", { name: item.identifier }),
    }),
    allRuns().length > 1 ? chooser(run) : "");
}

const SEGMENTS = 3; // more runs than these are a list to choose from

function chooser(run) {
  const choose = (other) => go(current().view, { ...current().parameters, run: undefined }, other);
  const title = (other) => `${other.model} on ${other.graph}`;
  if (allRuns().length > SEGMENTS) {
    return h("select", { "aria-label": "Run", onchange: ({ target }) => choose(allRuns()[target.selectedIndex]) },
      allRuns().map((other) => h("option", { selected: other === run, title: title(other) }, other.key)));
  }
  return h("div", { class: "segments", role: "group", "aria-label": "Run" }, allRuns().map((other) => h("button", {
    "aria-pressed": String(other === run), title: title(other), onclick: () => choose(other),
  }, other.key)));
}

let drawn = 0;

async function draw() {
  const place = current(), turn = ++drawn;
  header(place);
  main.setAttribute("aria-busy", "true");
  try {
    const content = await (VIEWS[place.view] ?? home)(place.run, place.parameters);
    if (turn !== drawn) return;
    main.replaceChildren(...[content].flat(9));
    main.className = `view-${place.view}`;
    const title = main.querySelector("h1")?.textContent;
    document.title = title ? `${title} · transher` : "transher";
    if (turn > 1) window.scrollTo(0, 0);
    if (matchMedia("(pointer: fine)").matches) main.querySelector("[autofocus]")?.focus();
  } catch (error) {
    if (turn === drawn) main.replaceChildren(failed(error));
  } finally {
    if (turn === drawn) main.removeAttribute("aria-busy");
  }
}

// What is not there differs from what takes longer, as a map that is computed for the first time.
function failed(error) {
  const later = [429, 503].includes(error.status);
  return h("section", { class: "card" }, h("h1", {}, later ? "Not ready yet" : error.status === 404 ? "Not found" : "This did not work"),
    failure(error), later ? h("button", { class: "button", onclick: draw }, "Try again") : "");
}

function askForToken() {
  const field = h("input", { type: "password", "aria-label": "Token", autocomplete: "current-password" });
  const submit = (event) => { event.preventDefault(); keepToken(field.value); start(); };
  main.replaceChildren(h("form", { class: "card token", onsubmit: submit }, h("h1", {}, "Token"),
    h("p", {}, "This server asks for the token that it was started with."), field, h("button", {}, "Continue")));
  field.focus();
}

async function start() {
  try {
    setRuns(await get("runs"));
    window.addEventListener("hashchange", draw);
    await draw();
  } catch (error) {
    if (error.status === 401) askForToken();
    else main.replaceChildren(failure(error));
  }
}

// "/" goes to the search field, wherever one is.
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || /INPUT|TEXTAREA/.test(document.activeElement?.tagName)) return;
  event.preventDefault();
  document.querySelector(".typeahead input")?.focus();
});

start();
