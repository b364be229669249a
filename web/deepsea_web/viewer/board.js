// A board in an SVG element: a position, and how divers move from one to the next.

import { build, s } from "./dom.js";
import { LAYOUT } from "./layout.js";
import { scene } from "./scene.js";

/** A board without a position. */
export function emptyBoard() {
  return s("svg", { class: "ds-board", viewBox: `0 0 ${LAYOUT.width} ${LAYOUT.height}`, "aria-hidden": "true" });
}

/** Draw a position. */
export function draw(board, position) {
  board.replaceChildren(...scene(position).map(build));
}

/** Move divers from where they were, in so many milliseconds. */
export function glide(board, from, to, duration) {
  if (!board.animate) return;
  to.divers.forEach((d, seat) => {
    const old = from.divers[seat];
    if (!(d.space > 0 && old.space > 0 && d.space !== old.space)) return;
    const [x, y] = LAYOUT.spaces[old.space - 1];
    const [toX, toY] = LAYOUT.spaces[d.space - 1];
    board.querySelector(`.ds-diver[data-seat="${d.seat}"]`).animate(
      [{ transform: `translate(${x}px, ${y - 46}px)` }, { transform: `translate(${toX}px, ${toY - 46}px)` }],
      { duration, easing: "ease-in-out" });
  });
}
