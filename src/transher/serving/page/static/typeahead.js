// A field that finds names while they are typed: a combobox with a list, for mouse, finger and keyboard.

import { ofRun } from "./api.js";
import { h, number } from "./dom.js";
import { current, go } from "./route.js";
import { relationLabel } from "./parts.js";
import { plainName } from "./words.js";

let count = 0;

// kinds: "entities", "relations" or both. choose(kind, item) is called with what was picked, or with null if emptied.
export function typeahead({ label, placeholder, kinds, choose, value = "", className = "", autofocus = false }) {
  const id = `list-${++count}`;
  let items = [], active = -1, latest = null, timer = 0;
  const list = h("ul", { id, role: "listbox", hidden: true, "aria-label": label });
  const input = h("input", {
    type: "search", role: "combobox", autocomplete: "off", spellcheck: "false", placeholder, value, maxlength: "200",
    "aria-label": label, "aria-expanded": "false", "aria-controls": id, "aria-autocomplete": "list", autofocus,
  });

  const close = () => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const mark = (place) => {
    active = place;
    [...list.children].forEach((child, other) => child.setAttribute("aria-selected", String(other === place)));
    if (place >= 0) {
      input.setAttribute("aria-activedescendant", list.children[place].id);
      list.children[place].scrollIntoView({ block: "nearest" });
    }
  };

  const pick = ({ kind, item }) => {
    if (kind === "all") return go("search", { text: item });
    input.value = item.name;
    close();
    choose(kind, item);
  };

  const show = () => {
    list.replaceChildren(...items.map((entry, place) => h("li", {
      id: `${id}-${place}`, role: "option", "aria-selected": "false",
      onpointerdown: (event) => { event.preventDefault(); pick(entry); },
    },
    entry.kind === "all" ? h("span", { class: "quiet" }, "All results …") : [h("span", {}, entry.kind === "relations" ? relationLabel(entry.item) : plainName(entry.item)),
    h("span", { class: "quiet" }, entry.kind === "relations"
      ? `relation, ${number(entry.item.triples)} facts`
      : entry.item.description ?? `${entry.item.identifier === entry.item.name ? "" : `${entry.item.identifier} · `}${number(entry.item.degree)} facts`)])));
    if (!items.length) list.append(h("li", { class: "quiet", role: "option", "aria-disabled": "true" }, "Nothing by that name."));
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    if (items.length) mark(0);
  };

  const search = async () => {
    latest?.abort();
    const text = input.value.trim();
    if (!text) return close();
    latest = new AbortController();
    try {
      const found = await ofRun(current().run.key, "search", { text, limit: 8 }, latest.signal);
      items = kinds.flatMap((kind) => found[kind].map((item) => ({ kind, item })));
      if (items.length && kinds.length > 1) items.push({ kind: "all", item: text });
      if (document.activeElement === input) show();
    } catch (error) {
      if (error.name !== "AbortError") close();
    }
  };

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, 60);
    if (!input.value) choose(null, null);
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") close();
    if (list.hidden || !items.length) return;
    if (event.key === "ArrowDown") mark((active + 1) % items.length);
    else if (event.key === "ArrowUp") mark((active - 1 + items.length) % items.length);
    else if (event.key === "Enter" && active >= 0) pick(items[active]);
    else return;
    event.preventDefault();
  });
  return h("div", { class: `typeahead ${className}` }, input, list);
}
