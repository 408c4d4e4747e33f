// An entity: what is known, what is predicted, its neighbourhood, and what is like it.

import { ofRun } from "./api.js";
import { h, number } from "./dom.js";
import { neighbourhood } from "./neighbourhood.js";
import { card, entityLink, factList, failure, loading, onceEach, partOnly, relationLink } from "./parts.js";
import { link } from "./route.js";
import { plainName } from "./words.js";

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
      h("p", { class: "quiet" }, self.description, self.description ? " · " : "", h("code", {}, self.identifier), " · ",
        `${number(self.degree)} known facts`),
      h("p", { class: "actions" },
        h("a", { class: "button", href: link("ask", { head: self.identifier }) }, "Ask about it"),
        h("a", { class: "button", href: link("map", { at: self.identifier }) }, "Show on the map"))),
    h("div", { class: "columns" },
      h("div", {},
        loading("Neighbourhood", predicted.then((found) => found, () => ({ answers: [] })),
          (found) => neighbourhood(view, found.answers)),
        card("Known facts", knownFacts(run, view))),
      h("div", {},
        loading("Predicted facts", predicted, (found) => [
          factList(run.key, onceEach(found.answers), (fact) => sentence(self, fact), "Nothing new: all that fits is known already."),
          partOnly(found),
        ]),
        loading("Similar", similar, similarList))),
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

function knownFacts(run, view) {
  if (!view.facts.length) return h("p", { class: "quiet" }, "None.");
  return h("dl", { class: "known-facts" }, bothWaysOnce(view.facts).map((group) => {
    const chips = h("dd", { class: "chips" });
    const draw = (others) => chips.replaceChildren(
      ...others.map((other) => entityLink(other, { class: "chip" })),
      ...(others.length < group.count ? [h("button", { class: "chip more", onclick: more }, `${number(group.count - others.length)} more`)] : []));
    const more = async () => {
      try {
        const all = await ofRun(run.key, "entity", { name: view.entity.identifier, each: 500 });
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
