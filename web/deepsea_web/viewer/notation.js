// Reads a position in notation (docs/rules.md), to draw it. It knows how a position is written and
// no rule of the game.

/** A unit such as "x", "3", "3=9", "[12]" or "{1=0,2}". */
export function parseUnit(text) {
  const inside = /^[[{]/.test(text) ? text.slice(1, -1) : text;
  const words = inside === "x" ? [] : /[,=]/.test(inside) ? inside.split(",") : [...inside];
  return { text, laid: text.startsWith("{"), chips: words.map(parseChip) };
}

function parseChip(text) {
  const [level, value] = text.split("=");
  if (!/^[1-4]$/.test(level)) throw new Error(`${text.slice(0, 20)} is no chip`);
  return { level: Number(level), value: value === undefined ? null : Number(value) };
}

const DIVER = /^(\*?)([A-F])(?:h([1-6])|(\d{1,2})([v^]))(!?)(?::([^/]+))?(?:\/(.+))?$/;

function parseDiver(text) {
  const found = DIVER.exec(text);
  if (!found) throw new Error(`${text.slice(0, 20)} is no diver`);
  const [, star, seat, home, space, facing, barred, cargo, bank] = found;
  return {
    seat,
    toMove: star !== "",
    home: home ? Number(home) : null,
    space: home ? null : Number(space),
    homeward: facing === "^",
    barred: barred !== "",
    cargo: cargo ? cargo.split(/,(?![^[]*\])/).map(parseUnit) : [],
    bank: bank ? bank.split(",").map(parseChip) : [],
  };
}

/** The parts of TRAIL | DIVERS | CLOCK; throws an Error that names what it cannot read. */
export function parsePosition(text) {
  const parts = String(text).split("|").map((part) => part.trim());
  const clock = /^d(\d) a(-?\d+)(?: s\d)?(?: ([a-z]+))?$/.exec(parts[2] ?? "");
  if (parts.length !== 3 || !clock) throw new Error("a position is TRAIL | DIVERS | CLOCK");
  const words = (part) => part.split(/\s+/).filter(Boolean);
  return {
    trail: words(parts[0]).map(parseUnit),
    divers: words(parts[1]).map(parseDiver),
    dive: Number(clock[1]),
    air: Number(clock[2]),
    phase: clock[3] ?? "declare",
  };
}
