// A question: two of head, relation and tail are given, the third is asked for. Some runs answer side by side.

import { ofRun } from "./api.js";
import { h, number } from "./dom.js";
import { entityLink, factList, loading, relationLink } from "./parts.js";
import { allRuns, current, keep, step } from "./route.js";
import { takeFacts } from "./table.js";
import { typeahead } from "./typeahead.js";
import { plainName, relationWords } from "./words.js";

const PARTS = ["head", "relation", "tail"];
const BESIDE = 3; // other runs of the same graph that are asked too
const HINTS = { head: "Who or what", relation: "is related how", tail: "to whom or what?" };

export async function ask(run, parameters) {
  const state = Object.fromEntries([...PARTS, "known", "missing_share", "why"].map((part) => [part, parameters[part]]));
  const labels = await Promise.all(PARTS.map((part) => (state[part] ? label(run, part, state[part]) : "")));
  const place = h("div", {});
  const inputs = {};

  const refresh = () => {
    const given = PARTS.filter((part) => state[part]);
    for (const part of PARTS) inputs[part].placeholder = given.length === 2 && !state[part] ? "?" : HINTS[part];
    place.replaceChildren(given.length >= 2 ? answers(state, given) : hints(run, given));
  };
  // Only the answers are drawn again, so that the field keeps its focus while the user types.
  const change = (part, value) => {
    state[part] = value;
    state.why = undefined;
    step("ask", state);
    refresh();
    if (value && PARTS.includes(part) && PARTS.filter((other) => state[other]).length === 1) inputs[part === "relation" ? "head" : "relation"].focus();
  };
  const fields = PARTS.map((part, column) => {
    const field = typeahead({
      label: part, placeholder: HINTS[part], value: labels[column], kinds: [part === "relation" ? "relations" : "entities"],
      choose: (_, item) => change(part, item?.identifier),
    });
    inputs[part] = field.querySelector("input");
    return h("div", { class: "part" }, h("span", { class: "caption" }, part), field);
  });
  refresh();
  return [
    h("div", { class: "title" }, h("h1", {}, "Ask"), h("p", { class: "quiet" }, "Fill in two, and the third is found. Fill in all three, and the fact is judged.")),
    h("div", { class: "query" }, fields),
    h("label", { class: "toggle" }, h("input", {
      type: "checkbox", checked: state.known === "hide",
      onchange: (event) => change("known", event.target.checked ? "hide" : undefined),
    }), " only what is not known yet"),
    h("label", { class: "toggle", title: "The more the graph lacks, the more likely it is that something new holds. Without a number, it is taken to lack as much as was held out for validation. If you know better, say so." },
      "the graph lacks about", h("input", {
        type: "number", min: 0.0001, max: 99.9999, step: "any", placeholder: "?",
        value: state.missing_share && Number((100 * state.missing_share).toPrecision(6)),
        onchange: ({ target }) => target.reportValidity() && change("missing_share", target.value && String(target.value / 100)),
      }), "% of what holds"),
    place,
  ];
}

async function label(run, part, identifier) {
  try {
    const path = part === "relation" ? "relation" : "entity";
    const found = await ofRun(run.key, path, { name: identifier, ...(path === "entity" ? { each: 1 } : {}) });
    return found[path].name;
  } catch {
    return identifier;
  }
}

function hints(run, given) {
  const [example] = run.questions;
  const words = example ? `For example a head and a relation: ${plainName(example.head)}, ${relationWords(example.relation.name)}.` : "";
  return h("p", { class: "quiet centred" }, given.length ? "One more, and there will be answers." : words);
}

function answers(parameters, given) {
  const runs = [current().run, ...allRuns().filter((other) => other !== current().run && other.graph === current().run.graph).slice(0, BESIDE)];
  const asked = PARTS.find((part) => !parameters[part]);
  const query = Object.fromEntries(given.map((part) => [part, parameters[part]]));
  const { missing_share } = parameters;
  const rest = asked ? { top: 12, known: parameters.known } : {};
  const show = (fact) => asked === "relation" ? relationLink(fact.relation)
    : asked ? entityLink(fact[asked]) : [entityLink(fact.head), " ", relationLink(fact.relation), " ", entityLink(fact.tail)];
  return h("div", { class: runs.length > 1 ? "columns even" : "" }, runs.map((run) =>
    loading(runs.length > 1 ? `${run.key} · ${run.model}` : asked ? "Answers" : "How likely it is",
      ofRun(run.key, asked ? "predict" : "score", { ...query, ...rest, missing_share }), (found) => [
        factList(run.key, found.answers, show, "No answers: all that fits is known already.",
          {
            missing_share,
            isOpen: (fact) => !asked || fact[asked].identifier === parameters.why,
            opened: (fact) => {
              parameters.why = asked && fact[asked].identifier;
              keep("ask", parameters);
            },
          }),
        takeFacts("the answers", found.answers, "answers.tsv"),
        h("p", { class: "quiet small" }, `Answered in ${found.milliseconds < 10 ? found.milliseconds.toFixed(1) : number(Math.round(found.milliseconds))} ms.`),
      ])));
}
