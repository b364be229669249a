// The slider over a game, and the marks above it.

import { h, s } from "./dom.js";
import { LAYOUT } from "./layout.js";

const ROWS = { fault: 0, lead: 0, slowest: 0, back: 1, home: 2, drowned: 2, judged: 3 };
const SIGNS = {
  fault: "M-2 -7H2L1 2H-1ZM-2 4H2V7H-2Z",
  lead: "M0 -7L2 -2H7L3 1L5 7L0 3L-5 7L-3 1L-7 -2H-2Z",
  slowest: "M-5 -7H5L1 0L5 7H-5L-1 0Z",
  back: "M0 -6L7 5H-7Z",
  home: "M0 -7L7 -1H5V6H-5V-1H-7Z",
  drowned: "M-6 -4L-4 -6L0 -2L4 -6L6 -4L2 0L6 4L4 6L0 2L-4 6L-6 4L-2 0Z",
};

/** What the marks mean, for the help; `judged` is whether there is an analysis. */
export function legend(judged) {
  const words = { back: "turned back", home: "came home", drowned: "drowned", fault: "fault",
    lead: "took the lead", slowest: "slowest decision" };
  return h("ul", { class: "ds-legend" }, Object.entries(words).map(([kind, word]) => h("li", {},
    s("svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" }, s("path", { d: SIGNS[kind] })), word)),
    judged && Object.entries(LAYOUT.losses).map(([sign, lost]) => h("li", {}, h("b", {}, sign), ` lost ${lost} or more`)));
}

/** The marks of a game; a click on one shows its frame. */
export function marks(game, show) {
  const last = Math.max(1, game.frames.length - 1);
  const height = game.policy ? 72 : 54;
  const ends = game.dives.map((dive) => s("line", { class: "ds-end", x1: `${100 * dive.at / last}%`,
    x2: `${100 * dive.at / last}%`, y1: 0, y2: height }));
  return s("svg", { class: "ds-marks", height, "aria-hidden": "true" }, ends,
    game.marks.filter((mark) => mark.kind in ROWS).map((mark) => s("svg", {
      x: `${100 * mark.at / last}%`, y: 9 + 18 * ROWS[mark.kind], overflow: "visible",
      class: `ds-mark ds-seat-${"ABCDEF"[mark.seat]}`, on: { click: () => show(mark.at) } },
    s("title", {}, `turn ${game.frames[mark.at].t}: ${mark.say}`),
    s("circle", { class: "ds-hit", r: 9 }), mark.sign
      ? s("text", { class: "ds-sign", y: 5 }, mark.sign) : s("path", { d: SIGNS[mark.kind] }))));
}
