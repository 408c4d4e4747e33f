// A relation: kind, patterns, translation, quality, and the facts that it seems to lack. And the list of all of them.

import { download, ofRun } from "./api.js";
import { h, number, share, svg } from "./dom.js";
import { card, entityLink, factList, failure, loading, onceEach, partOnly, relationLabel, relationLink, whyLink } from "./parts.js";
import { link } from "./route.js";
import { asText, takeAway, takeFacts } from "./table.js";
import { relationWords } from "./words.js";

const KINDS = {
  "1-to-1": "one head, one tail", "1-to-N": "one head, many tails",
  "N-to-1": "many heads, one tail", "N-to-N": "many heads, many tails",
};

const MOST = 500; // missing facts in a file

export async function relation(run, { name }) {
  const missing = ofRun(run.key, "relation/missing", { name, top: 20 });
  missing.catch(() => {});
  const view = await ofRun(run.key, "relation", { name });
  const self = view.relation;
  return [
    h("div", { class: "title" },
      h("h1", {}, relationWords(self.name)),
      self.identifier === self.name ? "" : h("p", { class: "quiet" }, h("code", {}, self.identifier)),
      h("p", {}, h("span", { class: "badge" }, self.type), ` ${KINDS[self.type]} · ${number(self.triples)} facts between `,
        `${number(view.heads)} heads and ${number(view.tails)} tails`)),
    h("div", { class: "columns" },
      h("div", {},
        loading("Most probable missing facts", missing, (found) => [
          factList(run.key, onceEach(found.answers), bothEnds, "Nothing seems to be missing: whatever could have it has it already."),
          partOnly(found),
          takeFacts("these facts", found.answers, "", h("button", {
            class: "small-button", onclick: (event) => save(event.target, run, self),
          }, `Download up to ${MOST}`)),
        ]),
        card("Some known facts", h("ul", { class: "plain" },
          onceEach(view.examples).map((fact) => h("li", { class: "known-fact" }, bothEnds(fact), whyLink(fact)))))),
      h("div", {},
        card("On the test set", quality(view.quality)),
        view.strip ? card("Translation", strip(view)) : "",
        card("Patterns", patterns(view)))),
  ];
}

const bothEnds = (fact) => [entityLink(fact.head), h("span", { class: "quiet" }, fact.bothWays ? " ↔ " : " → "), entityLink(fact.tail)];

async function save(button, run, self) {
  try {
    await download(run.key, "relation/missing.tsv", { name: self.identifier, top: MOST }, `missing ${relationWords(self.name)}.tsv`);
  } catch (error) {
    button.after(failure(error));
  }
}

function quality(metrics) {
  if (!metrics) return h("p", { class: "quiet" }, "No test triple has this relation.");
  const tiles = [["MRR", metrics.mrr.toFixed(3)], ["first", share(metrics["hits@1"])], ["in first ten", share(metrics["hits@10"])], ["queries", number(metrics.count)]];
  return h("div", { class: "tiles" }, tiles.map(([text, value]) => h("div", {}, h("b", {}, value), h("span", {}, text))));
}

// Blue below zero, orange above: one cell for some coordinates of B.
function strip(view) {
  const largest = Math.max(...view.strip.map(Math.abs), 1e-9);
  const cells = view.strip.map((value, place) => {
    const cell = svg("rect", { x: place, y: 0, width: 1.02, height: 6, class: value < 0 ? "below" : "above" });
    cell.style.opacity = (Math.abs(value) / largest).toFixed(3);
    return cell;
  });
  return [
    svg("svg", { viewBox: `0 0 ${view.strip.length} 6`, preserveAspectRatio: "none", class: "strip", role: "img",
      "aria-label": `Translation in ${view.strip.length} cells, largest ${largest.toFixed(3)}` }, cells),
    h("p", { class: "quiet small" }, `${view.strip_width} coordinates in ${view.strip.length} cells; the largest is ±${largest.toFixed(3)}`),
  ];
}

const SENTENCES = {
  symmetric: ([r]) => ["If A ", r, " B, then B ", r, " A"],
  inverse: ([r, c]) => ["If A ", r, " B, then B ", c, " A"],
  duplicate: ([r, c]) => ["If A ", r, " B, then A ", c, " B"],
  composed: ([r, s, c]) => ["If A ", r, " B and B ", s, " C, then A ", c, " C"],
};

function patterns(view) {
  if (!view.patterns.length) return h("p", { class: "quiet" }, "No strong pattern.");
  return h("ul", { class: "plain" }, view.patterns.slice(0, 12).map((pattern) => {
    const words = [...pattern.premises, pattern.conclusion].map(relationLink);
    if (pattern.kind === "symmetric") words[1] = relationLink(pattern.conclusion);
    const text = pattern.kind === "symmetric"
      ? ["If A ", words[0], " B, then B ", words[1], " A"] : SENTENCES[pattern.kind](words);
    return h("li", {}, text, h("span", { class: "quiet" }, ` — ${share(pattern.confidence)}, ${number(pattern.support)} pairs`));
  }));
}

export async function relations(run) {
  const all = (await ofRun(run.key, "relations")).sort((a, b) => b.triples - a.triples);
  const most = Math.max(...all.map((one) => one.triples), 1);
  const rows = all.map((one) => {
    const inner = h("span", { class: "fill" });
    inner.style.width = `${Math.max(1, (100 * one.triples) / most)}%`;
    return h("li", {}, h("a", { class: "what", href: link("relation", { name: one.identifier }), title: one.name }, relationLabel(one)),
      h("span", { class: "badge" }, one.type), h("span", { class: "bar calm" }, inner), h("span", { class: "value" }, number(one.triples)));
  });
  const filter = h("input", {
    type: "search", placeholder: "Filter …", "aria-label": "Filter the relations",
    oninput: () => all.forEach((one, place) => { rows[place].hidden = !one.name.toLowerCase().replaceAll("_", " ").includes(filter.value.toLowerCase()); }),
  });
  const facts = all.map((one) => [one.name, one.identifier, one.type, one.triples]);
  const text = (pasted) => asText(["relation", "identifier", "type", "facts"], facts, pasted);
  return [h("div", { class: "title" }, h("h1", {}, "Relations"), filter, takeAway("the relations", text, "relations.tsv")), h("ul", { class: "card relations" }, rows)];
}
