// The first page: find a name, or start from a question.

import { h, number } from "./dom.js";
import { entityLink } from "./parts.js";
import { go, link } from "./route.js";
import { typeahead } from "./typeahead.js";
import { plainName, relationWords } from "./words.js";

export function home(run) {
  const quality = run.quality ? ` · test MRR ${run.quality.mrr.toFixed(3)}` : "";
  return [
    h("section", { class: "hero" },
      h("h1", {}, "What does ", h("em", {}, run.graph), " not say yet?"),
      typeahead({
        label: "Find an entity or a relation", placeholder: "Type a name …", kinds: ["entities", "relations"],
        className: "large", autofocus: true,
        choose: (kind, item) => item && go(kind === "relations" ? "relation" : "entity", { name: item.identifier }),
      }),
      h("p", { class: "quiet" }, `${number(run.entities)} entities · ${number(run.relations)} relations · `,
        `${number(run.triples)} known facts`, h("br", {}), `${run.model}${run.dimension ? `, ${number(run.dimension)} dimensions` : ""}${quality}`,
        run.finished ? "" : " · still in training")),
    h("section", { class: "start" }, h("h2", {}, "Start from"),
      h("div", { class: "chips" }, run.prominent.map((entity) => entityLink(entity, { class: "chip" })))),
    h("section", { class: "start" }, h("h2", {}, "Or ask"),
      h("div", { class: "questions" }, run.questions.map((fact) =>
        h("a", {
          class: "question", href: link("ask", { head: fact.head.identifier, relation: fact.relation.identifier }),
        }, h("b", {}, plainName(fact.head)), " ", h("span", { class: "relation" }, relationWords(fact.relation.name)), " ",
        h("span", { class: "blank" }, "?"))))),
  ];
}
