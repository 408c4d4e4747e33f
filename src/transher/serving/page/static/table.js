// Tables to take away: copied as tab-separated text, which spreadsheets take too, or downloaded as a file.

import { save } from "./api.js";
import { h } from "./dom.js";

const cell = (value) => String(value ?? "").replace(/[\t\r\n]+/g, " ");

export const asText = (columns, rows) => [columns, ...rows].map((row) => row.map(cell).join("\t")).join("\n") + "\n";

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

// Buttons that take a table away; `text` is made when one is pressed. `more`: another button beside them.
export function takeAway(what, text, file, more) {
  const status = h("span", { class: "quiet small", role: "status" });
  const told = (words) => {
    status.textContent = words;
    setTimeout(() => { status.textContent = ""; }, 2500);
  };
  return h("p", { class: "take-away" },
    h("button", { class: "small-button", "aria-label": `Copy ${what}`, onclick: async () => { await copy(text()); told("Copied."); } }, "Copy"),
    file && h("button", {
      class: "small-button", "aria-label": `Save ${what} as a file`,
      onclick: () => { save(new Blob([text()], { type: "text/tab-separated-values" }), file); told("Saved."); },
    }, "Save"), more, status);
}

export const takeFacts = (what, facts, file, more) => facts.length ? takeAway(what, () => asText(FACT_COLUMNS, facts.map(factRow)), file, more) : "";
