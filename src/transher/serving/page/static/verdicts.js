// What people say of facts: two buttons beside each, and the list of all that was said.

import { download, ofRun, send } from "./api.js";
import { h } from "./dom.js";
import { entityLink, failure, relationLink } from "./parts.js";

const SIGNS = { right: "✓", wrong: "✗" };

// Pressed again, a button takes back what was said. The fact keeps its verdict, so that copied tables have it.
export function verdictButtons(run, fact) {
  const place = h("span", { class: "verdict", role: "group", "aria-label": "Is it right?" });
  const buttons = Object.entries(SIGNS).map(([verdict, sign]) => h("button", {
    class: `mark ${verdict}`, title: `Mark as ${verdict}`,
    "aria-label": `Mark as ${verdict}: ${fact.head.name}, ${fact.relation.name}, ${fact.tail.name}`,
    onclick: () => say(verdict),
  }, sign));
  const show = () => buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(Object.keys(SIGNS)[at] === fact.verdict)));
  const say = async (verdict) => {
    const said = fact.verdict === verdict ? null : verdict;
    try {
      await send(run, "verdicts", {
        head: fact.head.identifier, relation: fact.relation.identifier, tail: fact.tail.identifier, verdict: said,
      });
      fact.verdict = said;
      show();
    } catch (error) {
      place.append(failure(error));
    }
  };
  show();
  place.append(...buttons);
  return place;
}

export async function verdicts(run) {
  const all = (await ofRun(run.key, "verdicts")).reverse();
  const rows = all.map((said) => {
    const fact = {
      head: { identifier: said.head_id, name: said.head }, tail: { identifier: said.tail_id, name: said.tail },
      relation: { identifier: said.relation_id, name: said.relation }, verdict: said.verdict,
    };
    return h("li", {}, h("span", { class: "what" }, entityLink(fact.head), " ", relationLink(fact.relation), " ", entityLink(fact.tail)),
      h("span", { class: "quiet small" }, said.date), verdictButtons(run.key, fact));
  });
  return [
    h("div", { class: "title" }, h("h1", {}, "Checked facts"),
      h("p", { class: "quiet" }, "Facts that are right join the graph with the next ", h("code", {}, "transher update"),
        ", and those that are wrong leave it. What is wrong is not shown among the missing facts again.")),
    rows.length ? h("ul", { class: "card checked" }, rows) : h("p", { class: "quiet" }, "Nothing is marked yet: use ✓ and ✗ beside a fact."),
    rows.length ? h("button", { class: "button", onclick: () => download(run.key, "verdicts.tsv", {}, "verdicts.tsv") }, "Download as TSV") : "",
  ];
}
