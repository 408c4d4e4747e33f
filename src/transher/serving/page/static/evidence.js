// What speaks for a fact and what against it, in sentences.

import { h, number, percent } from "./dom.js";
import { link } from "./route.js";
import { plainLabel, relationWords } from "./words.js";

const entity = (name, identifier) => h("a", { href: link("entity", { name: identifier }), title: identifier }, plainLabel(name, identifier));

const factWords = (fact) => h("span", { class: "fact" },
  entity(fact.head, fact.identifiers[0]), " ",
  h("span", { class: "relation", title: fact.relation }, relationWords(fact.relation)), " ",
  entity(fact.tail, fact.identifiers[2]));

const section = (title, items) => items.length ? [h("h4", {}, title), h("ul", {}, items.map((item) => h("li", {}, item)))] : [];

function ruleWords(rule) {
  const steps = rule.examples[0] ?? [];
  return [
    steps.map((fact, place) => [place ? h("span", { class: "quiet" }, " and ") : null, factWords(fact)]),
    h("span", { class: "quiet" }, ` — holds for ${number(rule.support)} of ${number(rule.pairs)} pairs`),
    rule.rule ? h("span", { class: "rule" }, rule.rule) : "",
  ];
}

// As `effect_in_words` in transher.answering.words has it.
function effectWords(factor) {
  const size = factor >= 1 ? factor : 1 / factor;
  return `${factor >= 1 ? "multiplies" : "divides"} the odds by ${size < 10 ? size.toFixed(1) : number(Number(size.toPrecision(2)))}`;
}

export function evidence(found) {
  const ranks = Object.entries(found.ranks).map(([side, rank]) => `number ${number(rank)} of the ${side}s`).join(" and ");
  const largest = Math.max(...found.influences.map((influence) => Math.abs(influence.share)), 1e-9);
  return h("div", {},
    h("p", { class: "quiet" },
      found.known ? "Already in the graph. This is what else speaks for it. " : "Not in the graph. ",
      ranks && `Among the answers that are not known yet, it is ${ranks}.`),
    section("Why this probability", found.because.map((reason) => [
      reason.sentence, h("span", { class: "quiet" }, ` — ${effectWords(reason.factor)}`)])),
    section("Rules, and the facts that they rest on", found.rules.slice(0, 4).map(ruleWords)),
    section("Similar entities with this answer", found.similar.slice(0, 4).map((similar) =>
      [factWords(similar.fact), h("span", { class: "quiet" }, ` — cosine similarity ${similar.similarity.toFixed(2)}`)])),
    section("Known facts that moved the score most", found.influences.slice(0, 4).map((influence) => {
      const meter = h("span", { class: influence.size < 0 ? "meter against" : "meter" });
      meter.style.width = `${(4 * Math.abs(influence.share)) / largest}rem`;
      return [meter, factWords(influence.fact)];
    })),
    section("Other answers", found.alternatives.slice(0, 5).map((other) => [
      factWords(other.fact),
      h("span", { class: "quiet" }, ` — ${other.probability === null ? other.score.toFixed(2) : percent(other.probability)}`,
        other.known ? ", known" : ""),
    ])));
}
