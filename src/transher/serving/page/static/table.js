// Tables to take away: copied as tab-separated text, which spreadsheets take too, or downloaded as a file.

import { save } from "./api.js";
import { h } from "./dom.js";

const cell = (value) => String(value ?? "").replace(/[\t\r\n]+/g, " ");

// What is copied is pasted into spreadsheets: text that they would take for a formula gets an apostrophe in front.
const FORMULA = /^[=+@\-＝＋－＠]/;
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/;

function pastedCell(value) {
  const text = cell(value);
  return FORMULA.test(text) && !NUMBER.test(text) ? `'${text}` : text;
}

export const asText = (columns, rows, pasted) =>
  [columns, ...rows].map((row) => row.map(pasted ? pastedCell : cell).join("\t")).join("\n") + "\n";

export const FACT_COLUMNS = ["head", "relation", "tail", "head_id", "relation_id", "tail_id", "score", "probability", "known", "verdict"];

export const factRow = (fact) => [
  fact.head.name, fact.relation.name, fact.tail.name, fact.head.identifier, fact.relation.identifier, fact.tail.identifier,
  fact.score, fact.probability, fact.known, fact.verdict,
];

// Browsers give the clipboard to pages of https and of this machine only; elsewhere a marked text is copied.
async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "aside", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

// Buttons that take a table away; `text(pasted)` is made, or fetched, when one is pressed. `more`: another button beside them.
export function takeAway(what, text, file, more) {
  const status = h("span", { class: "quiet small", role: "status" });
  const told = (words) => {
    status.textContent = words;
    setTimeout(() => { status.textContent = ""; }, 2500);
  };
  const toFile = (table) => save(new Blob([table], { type: "text/tab-separated-values" }), file);
  const taken = (pasted) => async () => {
    try {
      await (pasted ? copy : toFile)(await text(pasted));
      told(pasted ? "Copied." : "Saved.");
    } catch (error) {
      told(error.message);
    }
  };
  return h("p", { class: "take-away" },
    h("button", { class: "small-button", "aria-label": `Copy ${what}`, onclick: taken(true) }, "Copy"),
    file && h("button", { class: "small-button", "aria-label": `Save ${what} as a file`, onclick: taken(false) }, "Save"), more, status);
}

export const takeFacts = (what, facts, file, more) => facts.length ? takeAway(what, (pasted) => asText(FACT_COLUMNS, facts.map(factRow), pasted), file, more) : "";
