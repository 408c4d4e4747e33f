// An entity: what is known, what is predicted, its neighbourhood, and what is like it.

import { ofRun } from "./api.js";
import { h, number, percent } from "./dom.js";
import { neighbourhood } from "./neighbourhood.js";
import { card, entityLink, factList, failure, loading, onceEach, partOnly, relationLink, whyLink } from "./parts.js";
import { link } from "./route.js";
import { asText, takeAway, takeFacts } from "./table.js";
import { plainName } from "./words.js";

const POSSIBLE = 0.1;
const MOST = 500; // known facts of a relation that the server gives at once

export async function entity(run, { name }) {
  const predicted = ofRun(run.key, "entity/predicted", { name, top: 12 });
  const similar = ofRun(run.key, "entity/similar", { name, top: 8 });
  predicted.catch(() => {});
  similar.catch(() => {});
  const view = await ofRun(run.key, "entity", { name, each: 12 });
  const self = view.entity;
  return [
    h("div", { class: "title" },
      h("h1", {}, plainName(self)),
      h("p", { class: "quiet" }, self.description, self.description ? " · " : "",
        self.identifier === self.name ? "" : [h("code", {}, self.identifier), " · "], `${number(self.degree)} known facts`),
      h("p", { class: "actions" },
        h("a", { class: "button", href: link("ask", { head: self.identifier }) }, "Ask about it"),
        h("a", { class: "button", href: link("map", { at: self.identifier }) }, "Show on the map"))),
    h("div", { class: "columns" },
      h("div", {},
        loading("Neighbourhood", predicted.then((found) => found, () => ({ answers: [] })),
          (found) => neighbourhood(view, found.answers.filter((fact) => (fact.probability ?? 1) >= POSSIBLE))),
        card("Known facts", knownFacts(run, view),
          view.facts.some((group) => group.count > MOST) ? h("p", { class: "quiet small" }, `A copy has at most ${MOST} facts of a relation.`) : "",
          takeAway("the known facts", async (pasted) => knownText(await allKnown(run, view), pasted), `${plainName(self)}.tsv`))),
      h("div", {},
        loading("Expected to be missing", predicted, (found) => missing(run, self, found)),
        loading("Similar", similar, similarList))),
  ];
}

// What is more likely than not comes first, then what may be. The rest stays folded: the best of what is left is seldom a fact.
function missing(run, self, found) {
  const facts = onceEach(found.answers);
  const list = (some, empty) => factList(run.key, some, (fact) => sentence(self, fact), empty);
  const rest = facts.filter((fact) => fact.probability !== null && fact.probability < POSSIBLE);
  const shown = facts.filter((fact) => !rest.includes(fact));
  const best = facts[0]?.probability;
  return [
    found.expected === null || found.expected === undefined ? "" : h("p", {}, expectedWords(found.expected)),
    shown.length ? list(shown) : h("p", { class: "quiet" }, facts.length
      ? `No single fact stands out: the most probable one has ${percent(best)}.` : "Nothing new: all that fits is known already."),
    rest.length ? h("details", { class: "less" }, h("summary", {}, `${number(rest.length)} less probable`), list(rest)) : "",
    partOnly(found),
    takeFacts("the facts", facts, `missing ${plainName(self)}.tsv`),
  ];
}

// The entity itself is left out: "→ borders Spain", "← capital Paris".
function sentence(self, fact) {
  const outward = fact.head.identifier === self.identifier;
  return [
    h("span", { class: "relation", title: fact.relation.name },
      !outward && !fact.bothWays ? "← " : "", relationLink(fact.relation)),
    " ", entityLink(outward ? fact.tail : fact.head),
  ];
}

// How many facts, by the sum of their probabilities.
function expectedWords(count) {
  if (count < 0.05) return "Next to nothing is expected to be missing.";
  if (count < 0.95) return `Less than one fact (about ${count.toFixed(1)}) is expected to be missing.`;
  return `About ${count < 9.95 ? count.toFixed(1) : number(Math.round(count))} facts are expected to be missing.`;
}

const allKnown = (run, view) => ofRun(run.key, "entity", { name: view.entity.identifier, each: MOST });

const knownText = (view, pasted) => asText(["head", "relation", "tail", "head_id", "relation_id", "tail_id"],
  view.facts.flatMap((group) => group.others.map((other) => {
    const [head, tail] = ends(view, group, other);
    return [head.name, group.relation.name, tail.name, head.identifier, group.relation.identifier, tail.identifier];
  })), pasted);

const ends = (view, group, other) => group.side === "tail" ? [view.entity, other] : [other, view.entity];

// A known fact leads to its other end, and in one click to what speaks for it.
function knownFact(view, group, other) {
  const [head, tail] = ends(view, group, other);
  return h("span", { class: "chip" }, entityLink(other), whyLink({ head, relation: group.relation, tail }));
}

function knownFacts(run, view) {
  if (!view.facts.length) return h("p", { class: "quiet" }, "None.");
  return h("dl", { class: "known-facts" }, bothWaysOnce(view.facts).map((group) => {
    const chips = h("dd", { class: "chips" });
    const draw = (others) => chips.replaceChildren(
      ...others.map((other) => knownFact(view, group, other)),
      ...(others.length < group.count ? [h("button", { class: "chip more", onclick: more }, `${number(group.count - others.length)} more`)] : []));
    const more = async () => {
      try {
        const all = await allKnown(run, view);
        const same = all.facts.find((other) => other.relation.identifier === group.relation.identifier && other.side === group.side);
        group.count = Math.min(group.count, same.others.length);
        draw(same.others);
      } catch (error) {
        chips.append(failure(error));
      }
    };
    draw(group.others);
    return [h("dt", {}, group.bothWays ? "↔ " : group.side === "head" ? "← " : "", relationLink(group.relation), h("span", { class: "count" }, number(group.count))), chips];
  }));
}

// A symmetric relation says the same twice: one group does.
function bothWaysOnce(groups) {
  const members = (group) => JSON.stringify([group.relation.identifier, group.count, group.others.map((other) => other.identifier)]);
  const outward = new Map(groups.filter((group) => group.side === "tail").map((group) => [members(group), group]));
  return groups.filter((group) => {
    const same = group.side === "head" && outward.get(members(group));
    if (same) same.bothWays = true;
    return !same;
  });
}

function similarList(found) {
  return h("ol", { class: "similar" }, found.map(({ entity, similarity }) => {
    const inner = h("span", { class: "fill" });
    inner.style.width = `${Math.max(2, 100 * similarity)}%`;
    return h("li", {}, h("span", { class: "what" }, entityLink(entity)),
      h("span", { class: "bar calm", role: "img", "aria-label": `cosine ${similarity.toFixed(2)}` }, inner),
      h("span", { class: "value" }, similarity.toFixed(2)));
  }));
}
