// Elements without HTML strings: every text becomes a text node, so that no name can be markup.

const SVG = "http://www.w3.org/2000/svg";

// Text as the terminal shows it too: what would be hidden, or turn the direction of what follows, is written out.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu;
const SHORT = { "\n": "\\n", "\r": "\\r", "\t": "\\t", "\u200c": "\u200c", "\u200d": "\u200d" }; // the joiners are part of words

function writtenOut(character) {
  const code = character.codePointAt(0);
  const [mark, width] = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
  return `\\${mark}${code.toString(16).padStart(width, "0")}`;
}

export const shown = (text) => text.replace(HIDDEN, (character) => SHORT[character] ?? writtenOut(character));

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  const there = children.flat(9).filter((child) => child !== null && child !== undefined && child !== false);
  element.append(...there.map((child) => (typeof child === "string" ? shown(child) : child)));
  return element;
}

export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

export const number = (value) => value.toLocaleString("en");

// A probability is never certain; a share that was counted may be.
export const share = (value) => (value === 1 ? "100 %" : percent(value));

export function percent(value) {
  if (value > 0.995) return "> 99 %";
  if (value < 0.01) return "< 1 %";
  return `${Math.round(100 * value)} %`;
}
