// What an analysis found: the values of a decision's options, and luck as it went.

import { h, s } from "./dom.js";

const value = ([mean, error]) => `${mean.toFixed(2)} ± ${error.toFixed(2)}`;

/** The options of a decision with what they are worth; nothing without an analysis. */
export function options(row) {
  if (!row.judged) return null;
  const { options, best, mark, level, regret } = row.judged;
  const note = (action) => {
    if (action !== row.action) return action === best ? "best" : "";
    if (action === best) return "played, best";
    return `played, ${value(regret)} behind${level ? ", not sure" : ""} ${mark}`.trim();
  };
  return h("table", { class: "ds-options" },
    h("thead", {}, h("tr", {}, ["option", "placement score", ""].map((word) =>
      word ? h("th", { scope: "col" }, word) : h("td")))),
    h("tbody", {}, options.map((one) => h("tr", { class: one.action === row.action ? "ds-played" : "" },
      h("th", { scope: "row" }, one.action), h("td", {}, value(one.score)), h("td", {}, note(one.action))))));
}

/** The luck of a seat as a line over the game; `area` makes a part of it lead to its frame. */
export function luck(game, seat, area) {
  const line = game.luck[seat];
  const all = game.luck.flat().map(Math.abs);
  const most = Math.max(0.1, ...all);
  const last = Math.max(1, line.length - 1);
  const y = (one) => 30 - 28 * one / most;
  const width = 1000 / line.length;
  const total = line.at(-1);
  return [`luck ${total < 0 ? "−" : "+"}${Math.abs(total).toFixed(2)}`,
    s("svg", { viewBox: "0 0 1000 60", preserveAspectRatio: "none", "aria-hidden": "true" },
      s("line", { class: "ds-budget", x1: 0, x2: 1000, y1: 30, y2: 30 }),
      s("polyline", { class: "ds-luck", points: line.map((one, at) => `${1000 * at / last},${y(one)}`).join(" ") }),
      line.map((one, at) => area(at, s("rect", { class: "ds-hit", x: width * at, y: 0, width, height: 60 }))))];
}
