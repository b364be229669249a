// What bots noted for their authors: beside the decision, and their numbers as lines over the game.

import { h, s } from "./dom.js";

const short = (number) => String(Number(number.toPrecision(4)));

/** What a bot noted at a decision; nothing without a note. */
export function note(row) {
  if (row.note === undefined) return null;
  const numbers = Object.entries(row.numbers).map(([name, number]) => `${name} ${short(number)}`);
  return h("p", { class: "ds-small" }, "Note: ", [...numbers, row.note].filter(Boolean).join("; "));
}

/** A line over the game for each seat and name of a number; `area` makes a part of it lead to its frame. */
export function lines(game, area) {
  const found = new Map();
  for (const { seat, at, numbers } of game.decisions) {
    for (const [name, number] of Object.entries(numbers ?? {})) {
      const key = `${seat} ${name}`;
      if (!found.has(key)) found.set(key, { seat, name, points: [] });
      found.get(key).points.push([at, number]);
    }
  }
  const last = Math.max(1, game.frames.length - 1);
  return [...found.values()].sort((a, b) => a.seat - b.seat).map(({ seat, name, points }) => {
    const all = points.map(([, number]) => number);
    const low = Math.min(...all), high = Math.max(...all);
    const y = (number) => (high > low ? 56 - 52 * (number - low) / (high - low) : 30);
    const width = 1000 / last;
    return { seat, words: `${name}: ${short(low)} to ${short(high)}`,
      picture: s("svg", { viewBox: "0 0 1000 60", preserveAspectRatio: "none", "aria-hidden": "true" },
        s("polyline", { class: "ds-luck", points: points.map(([at, number]) => `${width * at},${y(number)}`).join(" ") }),
        points.map(([at]) => area(at, s("rect", { class: "ds-hit", x: width * (at - 0.5), y: 0, width, height: 60 })))) };
  });
}
