// The panels beside and below the board. Each function makes the elements of one panel.

import { options } from "./coach.js";
import { build, h, s } from "./dom.js";
import { LAYOUT } from "./layout.js";
import { parseUnit } from "./notation.js";
import { note } from "./notes.js";

export const LETTERS = "ABCDEF";

const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
const letterOf = (seat) => LETTERS[seat];

/** A seat's letter in its colour. */
export function badge(seat) {
  return h("span", { class: `ds-tag ds-seat-${letterOf(seat)}` }, letterOf(seat));
}

/** Who won, and everybody's points. */
export function standing(game) {
  const { placements, points, forfeits } = game.result;
  const order = placements.map((_, seat) => seat).sort((a, b) => placements[a] - placements[b]);
  return order.map((seat, index) => [index ? ", " : "", `${placements[seat]}. `, h("b", {}, game.seats[seat].name),
    ` (${letterOf(seat)}) ${points[seat]}`, forfeits.some((one) => one.seat === seat) ? " forfeited" : ""]);
}

/** A time in words. */
export function time(us) {
  if (us < 1000) return `${us} µs`;
  return us < 1e6 ? `${(us / 1000).toFixed(1)} ms` : `${(us / 1e6).toFixed(2)} s`;
}

/** Where a diver is. */
export function whereabouts(d) {
  if (d.home) return `home, ${["first", "second", "third", "fourth", "fifth", "sixth"][d.home - 1]}`;
  if (d.space === 0) return "in the submarine";
  return `space ${d.space}, ${d.homeward ? "going home" : "going down"}`;
}

/** A unit in words. */
export function inWords(unit) {
  if (!unit.chips.length) return "blank";
  const levels = unit.chips.map((chip) =>
    chip.level + (chip.value === null ? "" : ` worth ${chip.value}`));
  if (levels.length === 1 && !unit.laid) return `level ${levels[0]}`;
  return `stack of levels ${levels.join(", ")}`;
}

function chipMark({ level, value }) {
  const picture = s("svg", { viewBox: "-52 -52 104 104", "aria-hidden": "true" },
    build(["path", { class: `ds-chip ds-level-${level}`, d: LAYOUT.shapes[level] }, []]),
    build(["text", { class: `ds-level ds-on-level-${level}`, x: 0, y: level === 1 ? 22 : 16 },
      [String(level)]]));
  const worth = value === null ? null : h("span", { class: "ds-points" }, String(value));
  return h("span", { class: "ds-mini" }, picture, worth);
}

function units(list) {
  return list.map((unit) => h("span", { class: unit.chips.length > 1 ? "ds-unit ds-many" : "ds-unit",
    title: inWords(unit) }, unit.chips.map(chipMark)));
}

/** What the chips of a bank are worth, as far as their values are known. */
export function points(bank) {
  const hidden = bank.filter((chip) => chip.value === null).length;
  const known = bank.reduce((sum, chip) => sum + (chip.value ?? 0), 0);
  return { known, hidden };
}

/** Everybody's place, cargo and bank. */
export function seats(game, position, lastTake) {
  return position.divers.map((d, seat) => {
    const { known, hidden } = points(d.bank);
    const take = lastTake(seat);
    return h("li", { class: `ds-card${d.toMove ? " ds-moves" : ""}` },
      h("div", { class: "ds-who" }, badge(seat),
        h("span", { class: "ds-name", title: game.seats[seat].name }, game.seats[seat].name),
        h("span", { class: "ds-score" }, String(known), h("small", {}, hidden ? ` + ${hidden} hidden` : known === 1 ? " point" : " points"))),
      h("div", { class: "ds-where" }, whereabouts(d), d.barred ? ", may not board" : "", take && ", ", take),
      row("carries", units(d.cargo)),
      row("banked", d.bank.map((chip) => h("span", { class: "ds-unit" }, chipMark(chip)))));
  });
}

function row(label, things) {
  return h("div", { class: "ds-row" }, h("span", { class: "ds-key" }, label),
    things.length ? things : h("span", { class: "ds-none" }, "nothing"));
}

/** What a viewer can say about the chips whose values are hidden. */
export function knowledge(game, position, who) {
  const seen = game.values.map(() => []);
  const units = [...position.trail, ...position.divers.flatMap((d) => d.cargo)];
  const chips = [...units.flatMap((unit) => unit.chips), ...position.divers.flatMap((d) => d.bank)];
  for (const chip of chips) if (chip.value !== null) seen[chip.level - 1]?.push(chip.value);
  const rows = game.values.map((values, index) => {
    const left = [...values];
    for (const value of seen[index]) {
      const place = left.indexOf(value);
      if (place >= 0) left.splice(place, 1);
    }
    const mean = left.length ? left.reduce((sum, value) => sum + value, 0) / left.length : null;
    return h("tr", {}, h("th", { scope: "row" }, `level ${index + 1}`),
      h("td", {}, seen[index].sort((a, b) => a - b).join(" ") || "none"),
      h("td", {}, left.join(" ") || "none"),
      h("td", {}, mean === null ? "" : mean.toFixed(1)));
  });
  return [
    h("p", {}, `${who} A chip whose value is hidden can be any of those not seen.`),
    h("table", {}, h("thead", {}, h("tr", {}, ["chips", "seen", "not seen yet", "average"].map((word) =>
      h("th", { scope: "col" }, word)))), h("tbody", {}, rows)),
  ];
}

/** How each dive went, in one glance; `take` links to what a seat knew at its last treasure. */
export function dives(game, go, take) {
  return game.dives.map((dive, index) => h("li", { class: "ds-dive" },
    h("h3", {}, go(dive.at, dive.say.replace(/^d/, "D"))),
    h("ul", {}, dive.seats.map((one) => h("li", { class: one.home ? "ds-home" : one.chips.length ? "ds-drowned" : "" },
      badge(one.seat),
      h("span", {}, one.say, " ", units(one.chips.map(parseUnit)), " ",
        take(one.seat, index ? game.dives[index - 1].at : -1, dive.at)))))));
}

/** The bot that is asked in this frame, what it did and how long it took. */
export function asked(game, index) {
  const rows = game.decisions.map((row, number) => ({ ...row, number })).filter((row) => row.at === index);
  return rows.map((row) => h("li", {}, badge(row.seat),
    h("span", {}, ` decides (${row.kind}): `, h("b", {}, row.action),
      row.us === null ? "" : ` after ${time(row.us)}`,
      row.bank === undefined ? "" : `, ${time(row.bank)} left in the bank`,
      row.fault ? h("span", { class: "ds-fault" }, ` ${row.fault}`) : "",
      h("small", {}, ` decision ${row.number}`), note(row), options(row))));
}

/** What bots did wrong: what was asked and what came. */
export function faults(game, go) {
  const rows = game.decisions.map((row, number) => ({ ...row, number })).filter((row) => row.fault);
  if (!rows.length) return [h("p", {}, "No bot was at fault.")];
  const forfeits = new Map(game.result.forfeits.map((one) => [one.decision, one]));
  return [h("ul", { class: "ds-list" }, rows.map((row) => h("li", {}, badge(row.seat),
    h("span", {}, go(row.at, `decision ${row.number}, turn ${game.frames[row.at].t}`),
      `: ${row.fault}`, row.us === null ? "" : ` after ${time(row.us)}`,
      `. Asked to ${row.kind} (${(row.asked ?? []).join(", ")})`,
      row.came ? `; ${row.came}` : "", `; ${row.action} was played`,
      forfeits.has(row.number) ? "; the seat forfeits" : "", "."))))];
}

/** The times of a seat's decisions as bars, with budget and bank. */
export function times(game, seat, area) {
  const rows = game.decisions.filter((row) => row.seat === seat && row.us !== null);
  if (!rows.length) return h("p", {}, "It was not asked.");
  const sorted = rows.map((row) => row.us).sort((a, b) => a - b);
  const longest = Math.max(sorted.at(-1), game.budget ?? 0, 1);
  // Times span five powers of ten.
  const height = (us) => 56 * Math.log1p(us / 100) / Math.log1p(longest / 100);
  const width = 1000 / rows.length;
  const bars = rows.map((row, index) => area(row.at, s("g", {},
    s("title", {}, `${row.kind}: ${row.action}, ${time(row.us)}${row.fault ? `, ${row.fault}` : ""}`),
    s("rect", { class: "ds-hit", x: width * index, y: 0, width, height: 60 }),
    s("rect", { class: row.fault ? "ds-bar ds-late" : "ds-bar", x: width * (index + 0.15),
      y: 60 - Math.max(2, height(row.us)), width: width * 0.7, height: Math.max(2, height(row.us)) }))));
  const budget = game.budget === null ? [] : [
    s("line", { class: "ds-budget", x1: 0, x2: 1000, y1: 60 - height(game.budget), y2: 60 - height(game.budget) })];
  const bank = !game.bank ? [] : [s("polyline", { class: "ds-bank", points: rows.map((row, index) =>
    `${width * (index + 0.5)},${60 - 56 * row.bank / game.bank}`).join(" ") })];
  const left = rows.at(-1).bank;
  return h("figure", {},
    h("figcaption", {}, badge(seat), h("span", { class: "ds-name" }, game.seats[seat].name),
      h("span", {}, `${plural(rows.length, "decision")}, median ${time(sorted[sorted.length >> 1])}, slowest ${time(sorted.at(-1))}` +
        (left === undefined ? "" : `, ${time(left)} of ${time(game.bank)} left in the bank`))),
    s("svg", { viewBox: "0 0 1000 60", preserveAspectRatio: "none", "aria-hidden": "true" }, bars, budget, bank));
}

/** The story, each turn a link; `lines` gets the link of each frame that says something. */
export function story(game, go, lines) {
  return game.frames.flatMap((frame, index) => frame.say.map((text, number) => {
    const isTurn = /^[A-F][▼▲]/.test(text);
    const words = `${isTurn ? String(frame.t).padStart(3) + " " : ""}${text}`;
    const link = go(index, words);
    if (number === 0) lines.set(index, link);
    return h("li", { class: isTurn ? "" : "ds-news" }, link);
  }));
}

/** The board as sentences, for a screen reader. */
export function spoken(position, game) {
  const at = new Map(position.divers.filter((d) => d.space).map((d) => [d.space, d]));
  return [
    h("li", {}, `dive ${position.dive}, air ${position.air}`),
    ...position.divers.map((d, seat) => h("li", {},
      `${d.seat} ${game.seats[seat].name}: ${whereabouts(d)}, carries ${d.cargo.map(inWords).join("; ") || "nothing"}`)),
    ...position.trail.map((unit, index) => h("li", {}, `space ${index + 1}: ${inWords(unit)}` +
      (at.has(index + 1) ? `, diver ${at.get(index + 1).seat}` : ""))),
  ];
}
