// Elements without HTML strings: every text becomes a text node, so that no name can be markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
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
