// Pieces that several views share: links, bars, ranked facts, evidence behind a fact, failures.

import { ofRun } from "./api.js";
import { evidence } from "./evidence.js";
import { h, percent } from "./dom.js";
import { link } from "./route.js";
import { takeAway } from "./table.js";
import { verdictButtons } from "./verdicts.js";
import { plainName, relationField, relationWords } from "./words.js";

export const entityLink = (entity, properties = {}) =>
  h("a", { href: link("entity", { name: entity.identifier }), title: entity.description ?? entity.identifier, ...properties },
    plainName(entity));

export const relationLink = (relation) =>
  h("a", { class: "relation", href: link("relation", { name: relation.identifier }), title: relation.name },
    relationWords(relation.name));

export const relationLabel = (relation) => {
  const field = relationField(relation.name);
  return [field && h("span", { class: "field" }, field), " ", relationWords(relation.name)];
};

// What leads from a known fact to what speaks for it.
export const whyLink = ({ head, relation, tail }) =>
  h("a", {
    class: "why", title: "Evidence and rules", "aria-label": `Evidence: ${plainName(head)}, ${relation.name}, ${plainName(tail)}`,
    href: link("ask", { head: head.identifier, relation: relation.identifier, tail: tail.identifier }),
  }, "?");

// Facts that hold both ways, as of a symmetric relation, once.
export function onceEach(facts) {
  const seen = new Map();
  for (const fact of facts) {
    const [one, other] = [fact.head.identifier, fact.tail.identifier];
    const turned = seen.get(JSON.stringify([other, fact.relation.identifier, one]));
    if (turned) turned.bothWays = true;
    else seen.set(JSON.stringify([one, fact.relation.identifier, other]), { ...fact });
  }
  return [...seen.values()];
}

// A bar for a probability; for a score alone, its place among those shown.
export function bar(fact, facts) {
  const likely = fact.probability;
  const scores = facts.map((other) => other.score ?? 0);
  const least = Math.min(...scores), most = Math.max(...scores);
  const share = likely ?? (most > least ? 0.1 + (0.9 * (fact.score - least)) / (most - least) : 1);
  const text = likely !== null ? percent(likely) : (fact.score ?? 0).toFixed(2);
  const inner = h("span", { class: "fill" });
  inner.style.width = `${Math.max(2, 100 * share)}%`;
  const label = likely !== null ? `probability ${text}` : `score ${text}`;
  return [
    h("span", { class: fact.known ? "bar known" : "bar", role: "img", "aria-label": label }, inner),
    h("span", { class: "value", title: fact.score === null ? "" : `score ${fact.score.toFixed(3)}` }, text),
  ];
}

// Said below facts that were looked for among a part of all pairs.
export const partOnly = (found) =>
  found.partial ? h("p", { class: "quiet small" }, "Looked for among the best connected entities only.") : "";

// Ranked facts, each of which opens to its evidence. `shown` says which part of a fact a line names.
export function factList(run, facts, shown, empty = "Nothing to show.", { missing_share, isOpen = () => false, opened = () => {} } = {}) {
  if (!facts.length) return h("p", { class: "quiet" }, empty);
  return h("ol", { class: "facts" }, facts.map((fact) => {
    const place = h("div", { class: "evidence", hidden: true });
    const button = h("button", {
      class: "why", title: "Why?", "aria-expanded": "false",
      "aria-label": `Evidence: ${fact.head.name}, ${fact.relation.name}, ${fact.tail.name}`,
    }, "›");
    const toggle = () => {
      place.hidden = !place.hidden;
      button.setAttribute("aria-expanded", String(!place.hidden));
      if (place.hidden || place.hasChildNodes()) return;
      showEvidence(run, fact, missing_share, place);
      opened(fact);
    };
    // The whole line opens the evidence by mouse and finger; the button does by keyboard too.
    const line = h("div", { class: "fact-line", onclick: (event) => { if (event.target === button || !event.target.closest("a, button")) toggle(); } },
      button, h("span", { class: "what" }, shown(fact), fact.known && h("span", { class: "tag" }, "known")), bar(fact, facts), verdictButtons(run, fact));
    if (isOpen(fact)) toggle();
    return h("li", {}, line, place);
  }));
}

async function showEvidence(run, fact, missing_share, place) {
  place.append(h("p", { class: "quiet" }, "Looking for evidence …"));
  const ends = { head: fact.head.identifier, relation: fact.relation.identifier, tail: fact.tail.identifier };
  try {
    const found = await ofRun(run, "explain", { ...ends, missing_share });
    const told = evidence(found);
    place.replaceChildren(told, takeAway("the evidence", () => told.innerText, "evidence.txt"));
  } catch (error) {
    place.replaceChildren(failure(error));
  }
}

export const card = (title, ...children) => h("section", { class: "card" }, h("h2", {}, title), ...children);

// A card whose content comes later; what fails says so in its place.
export function loading(title, promise, show) {
  const body = h("div", { class: "body", "aria-busy": "true" }, h("p", { class: "quiet pulse" }, "…"));
  promise.then((value) => body.replaceChildren(...[show(value)].flat(9)))
    .catch((error) => body.replaceChildren(failure(error)))
    .finally(() => body.removeAttribute("aria-busy"));
  return card(title, body);
}

export const failure = (error) => h("div", { class: "failure", role: "alert" }, h("p", {}, error.message));
