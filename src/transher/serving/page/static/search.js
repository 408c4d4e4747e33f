// All that a search finds, to look through and to take away.

import { ofRun } from "./api.js";
import { h, number } from "./dom.js";
import { card, entityLink, relationLink } from "./parts.js";
import { asText, takeAway } from "./table.js";

export async function search(run, { text }) {
  const found = await ofRun(run.key, "search", { text, limit: 50 });
  const rows = [
    ...found.entities.map((one) => ["entity", one.name, one.identifier, one.degree, one.description]),
    ...found.relations.map((one) => ["relation", one.name, one.identifier, one.triples, null]),
  ];
  const list = (items, show, count) => h("ul", { class: "plain" }, items.map((one) =>
    h("li", {}, show(one), h("span", { class: "quiet" }, ` · ${number(count(one))} facts`, one.description ? ` · ${one.description}` : ""))));
  return [
    h("div", { class: "title" }, h("h1", {}, "Results for “", text, "”"),
      takeAway("the results", (pasted) => asText(["kind", "name", "identifier", "facts", "description"], rows, pasted), "results.tsv")),
    found.entities.length ? card("Entities", list(found.entities, (one) => entityLink(one), (one) => one.degree)) : "",
    found.relations.length ? card("Relations", list(found.relations, relationLink, (one) => one.triples)) : "",
    rows.length ? "" : h("p", { class: "quiet" }, "Nothing by that name."),
  ];
}
