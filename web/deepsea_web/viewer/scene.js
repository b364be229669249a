// The board of a position as plain data: [tag, attributes, children], where a child may be a text.

import { LAYOUT } from "./layout.js";

/** What is drawn into an SVG whose view box is LAYOUT's width and height. */
export function scene(position) {
  const at = new Map(position.divers.filter((d) => d.space > 0).map((d) => [d.space, d]));
  return [
    ...water(),
    ["polyline", { class: "ds-rope", points: rope(position.trail.length) }, []],
    submarine(position),
    air(position),
    ...position.trail.map((unit, index) => space(unit, index + 1)),
    ...[...at].sort(([a], [b]) => a - b).map(([place, d]) => {
      const [x, y] = LAYOUT.spaces[place - 1];
      return diver(d, x, y - 46);
    }),
  ];
}

function water() {
  const { width, height, rays, floor, bubbles } = LAYOUT;
  const stops = ["0", "0.5", "1"].map((offset, index) => [
    "stop", { offset, class: `ds-sea-${index}` }, [],
  ]);
  return [
    ["defs", {}, [["linearGradient", { id: "ds-sea", x1: 0, y1: 0, x2: 0, y2: 1 }, stops]]],
    ["rect", { width, height, rx: 20, fill: "url(#ds-sea)" }, []],
    ...rays.map((d) => ["path", { class: "ds-ray", d }, []]),
    ["path", { class: "ds-floor", d: floor }, []],
    ...bubbles.map(([cx, cy, r]) => ["circle", { class: "ds-bubble", cx, cy, r }, []]),
  ];
}

function rope(length) {
  return [LAYOUT.rope, ...LAYOUT.spaces.slice(0, length)].map((point) => point.join(",")).join(" ");
}

function submarine(position) {
  const holes = position.divers.map((d, index) => {
    const [cx, cy] = LAYOUT.portholes[index];
    const inside = d.home || d.space === 0;
    return ["g", { class: "ds-porthole" }, [
      ["circle", { cx, cy, r: 33 }, []],
      ...(inside ? [diver(d, cx, cy)] : []),
      ...(d.home ? [text("ds-home", cx, 168, `home ${d.home}`)] : []),
    ]];
  });
  return ["g", { class: "ds-submarine" }, [
    ["path", { class: "ds-screw", d: LAYOUT.screw }, []],
    ["path", { class: "ds-tower", d: LAYOUT.tower }, []],
    ["path", { class: "ds-hull", d: LAYOUT.hull }, []],
    ...holes,
  ]];
}

function air(position) {
  const { x, y, step, width, height, full } = LAYOUT.air;
  const left = Math.max(0, position.air);
  const state = left > full / 2 ? "high" : left > full / 5 ? "low" : "out";
  const cells = Array.from({ length: full }, (_, index) => [
    "rect", { class: index < left ? "ds-on" : "ds-off", x: x + step * index, y, width, height, rx: 2 },
    [],
  ]);
  return ["g", { class: `ds-air ds-air-${state}`, "data-air": position.air }, [
    text("ds-label", x, y - 14, "AIR"),
    text("ds-figure", x + step * full - 2, y - 14, String(position.air)),
    ...cells,
    text("ds-label", x, y + height + 30, `DIVE ${position.dive}`),
  ]];
}

function space(unit, number) {
  const [x, y] = LAYOUT.spaces[number - 1];
  const attributes = {
    class: "ds-space", transform: `translate(${x} ${y})`, "data-space": number,
    "data-unit": unit.text,
  };
  const drawn = unit.chips.length === 0 ? [["circle", { class: "ds-blank", r: 11 }, []]]
    : unit.chips.length === 1 && !unit.laid ? chip(unit.chips[0]) : stack(unit);
  return ["g", attributes, [...drawn, text("ds-number", -33, 53, String(number))]];
}

function chip({ level, value }) {
  const drawn = [
    ["path", { class: `ds-chip ds-level-${level}`, d: LAYOUT.shapes[level] }, []],
    text(`ds-level ds-on-level-${level}`, 0, level === 1 ? 17 : 13, String(level)),
  ];
  return value === null ? drawn : [...drawn, ...worth(value)];
}

function stack(unit) {
  const levels = unit.chips.map((one) => one.level);
  const perRow = levels.length <= 9 ? 3 : levels.length <= 16 ? 4 : 6;
  const rows = Math.ceil(levels.length / perRow);
  const size = [0, 25, 25, 22, 18, 15, 13][Math.min(rows, 6)];
  const lines = Array.from({ length: rows }, (_, row) => {
    const digits = levels.slice(perRow * row, perRow * (row + 1)).join(" ");
    const y = Math.round((row - (rows - 1) / 2) * size * 1.05 + size * 0.35);
    return text(`ds-stacked ds-size-${size}`, 0, y, digits);
  });
  const values = unit.chips.map((one) => one.value);
  const total = values.includes(null) ? [] : worth(values.reduce((sum, value) => sum + value, 0));
  return [
    ["rect", { class: "ds-under", x: -34, y: -43, width: 76, height: 76, rx: 10 }, []],
    ["rect", { class: unit.laid ? "ds-stack ds-laid" : "ds-stack",
      x: -41, y: -36, width: 78, height: 76, rx: 10 }, []],
    ...lines,
    ...total,
  ];
}

function worth(value) {
  return [
    ["circle", { class: "ds-worth", cx: 31, cy: 29, r: 16 }, []],
    text("ds-value", 31, 35, String(value)),
  ];
}

function diver(d, x, y) {
  const place = d.home ? `h${d.home}` : String(d.space);
  const arrow = d.homeward ? "M4 7H24L14 -10Z" : "M4 -8H24L14 9Z";
  return ["g", {
    class: `ds-diver ds-seat-${d.seat}${d.toMove ? " ds-moves" : ""}`,
    transform: `translate(${x} ${y})`, "data-seat": d.seat, "data-place": place,
    "data-facing": d.homeward ? "home" : "down",
  }, [
    ["rect", { class: "ds-ring", x: -36, y: -25, width: 72, height: 50, rx: 25 }, []],
    ["rect", { class: "ds-badge", x: -31, y: -20, width: 62, height: 40, rx: 20 }, []],
    text("ds-letter", d.home ? 0 : -13, 11, d.seat),
    ...(d.home ? [] : [["path", { class: "ds-arrow", d: arrow }, []]]),
    ...(d.barred ? [text("ds-barred", 36, -8, "!")] : []),
  ]];
}

function text(className, x, y, words) {
  return ["text", { class: className, x, y }, [words]];
}
