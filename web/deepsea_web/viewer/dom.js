// Elements: only by createElement, setAttribute and textContent, so that no text of a bot is ever
// markup and the page works under Trusted Types.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "on") {
      for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    } else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An element of HTML; `on` in its attributes has listeners by event. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An element of SVG. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** The elements of a scene: [tag, attributes, children] and texts. */
export function build(node) {
  return typeof node === "string" ? node : s(node[0], node[1], ...node[2].map(build));
}

/** A picture on a button. */
export function icon(path) {
  return s("svg", { viewBox: "0 0 24 24", class: "ds-icon", "aria-hidden": "true" },
    s("path", { d: path }));
}
