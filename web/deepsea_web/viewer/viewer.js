// The viewer of one game.
//
// A self-contained page has this code inline and its games in data blocks (page.js). A served page
// loads the same text as a file under `script-src 'self'` and mounts what it fetched:
//
//     import { mount } from "./viewer.js";
//     const viewer = mount(element, await (await fetch("games/17.json")).json());
//     viewer.close();                        // before another game is mounted in its place
//
// A game is either the frames of docs/viewer.md, or {frames, views, record, verify}: `views` has
// what each seat saw (deepsea_web/assets.py), `record` the text to download. With `load(viewer)` in
// the options, a promise of frames, the views are fetched when they are asked for. With `led` the
// page leads by `show`: there are no keys and controls, no address, and nothing of what comes later.

import { address, addressWith } from "./address.js";
import { draw, emptyBoard, glide } from "./board.js";
import * as coach from "./coach.js";
import { h, icon, s } from "./dom.js";
import { LAYOUT } from "./layout.js";
import { parsePosition } from "./notation.js";
import * as notes from "./notes.js";
import * as panels from "./panels.js";
import { share } from "./share.js";
import { legend, marks } from "./timeline.js";
import { check, unpack } from "./views.js";

const SPEEDS = [0.5, 1, 2, 4, 10];
const ICONS = {
  first: "M5 5H8V19H5ZM20 5V19L9 12Z",
  previous: "M17 5V19L7 12Z",
  play: "M7 4V20L20 12Z",
  pause: "M6 5H10V19H6ZM14 5H18V19H14Z",
  next: "M7 5V19L17 12Z",
  last: "M16 5H19V19H16ZM4 5V19L15 12Z",
};
const KEYS = [["space", "play or pause"], ["← →", "one step back, one step on"], ["Home End", "beginning, end"],
  ["n p", "next event, event before"], ["+ −", "faster, slower"], ["?", "this help"]];

/** Draw a game into an element; returns {close, show}. Throws for frames that cannot be drawn. */
export function mount(element, given, options = {}) {
  const game = given?.frames && !Array.isArray(given.frames) ? given : { frames: given };
  check(game.frames);
  const all = game.frames;
  const positions = new Map();
  const known = new Map([[all.viewer ?? "all", all]]);
  const quiet = matchMedia("(prefers-reduced-motion: reduce)");
  let view = all.viewer ?? "all";
  let index = 0;
  let speed = 1;
  let timer = null;
  let lines = new Map();

  const frames = () => known.get(view);
  const last = all.frames.length - 1;
  const turns = all.frames[last].t;

  // Addresses

  function place(at, seen = view) {
    const { t } = all.frames[at];
    const first = all.frames.findIndex((frame) => frame.t === t);
    const final = all.frames.findLastIndex((frame) => frame.t === t);
    return { turn: t, step: at === final ? null : at - first, seat: seen === all.viewer ? null : seen };
  }

  function frameOf(turn, step) {
    const first = all.frames.findIndex((frame) => frame.t === turn);
    if (first < 0) return -1;
    const final = all.frames.findLastIndex((frame) => frame.t === turn);
    return step === null ? final : Math.min(final, first + step);
  }

  /** A link to a frame, as somebody saw it; without that, as it is seen now. */
  const link = (at, words, seen) => h("a", { href: addressWith(place(at, seen)), on: { click: (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    pause();
    if (seen && seen !== view) { index = at; choose(seen); } else show(at);
  } } }, words);
  const area = (at, element) => { element.addEventListener("click", () => { pause(); show(at); }); return element; };
  const noted = notes.lines(all, area);

  // The elements

  const status = h("p", { class: "ds-status" });
  const dice = h("span", { class: "ds-dice" });
  const board = emptyBoard();
  const say = h("div", { class: "ds-say" });
  const live = h("div", { class: "ds-hidden", role: "status", "aria-live": "polite" });
  const spoken = h("ol", { class: "ds-hidden", "aria-label": "the board" });
  const strip = h("div", { class: "ds-strip" });
  const slider = h("input", { type: "range", min: 0, max: last, step: 1, value: 0, "aria-label": "position in the game",
    on: { input: () => { pause(); show(Number(slider.value)); } } });
  const playing = h("button", { type: "button", class: "ds-play", on: { click: toggle } });
  const pace = h("select", { "aria-label": "speed", on: { change: () => { speed = Number(pace.value); } } },
    SPEEDS.map((one) => h("option", { value: one, selected: one === speed }, `${one}×`)));
  const who = h("select", { id: "ds-view", on: { change: () => choose(who.value) } }, perspectives().map(([value, words]) =>
    h("option", { value }, words)));
  const cards = h("ul", { class: "ds-cards" });
  const asked = h("ul", { class: "ds-asked" });
  const knows = h("div", { class: "ds-knows" });
  const dives = h("ol", { class: "ds-dives" });
  const turnList = h("ol", { class: "ds-turns", tabindex: 0, "aria-label": "turns" });
  const notice = h("p", { class: "ds-notice", role: "status" });
  const help = h("dialog", { class: "ds-help", "aria-label": "help" },
    h("h2", {}, "Keys"),
    h("dl", {}, KEYS.map(([key, words]) => [h("dt", {}, key), h("dd", {}, words)])),
    h("h2", {}, "Marks above the slider"), legend(Boolean(all.policy)),
    h("form", { method: "dialog" }, h("button", {}, "Close")));

  function perspectives() {
    const found = [[view, view === "all" ? "everything" : view]];
    const others = ["watcher", ...panels.LETTERS.slice(0, all.seats.length)].filter((one) => one !== view);
    for (const one of others) {
      if (!options.load && !game.views?.[one]) continue;
      const seat = panels.LETTERS.indexOf(one);
      found.push([one, seat < 0 ? "what everybody knew" : `what ${one} knew: ${all.seats[seat].name}`]);
    }
    return found;
  }

  const button = (name, words, act) => h("button", { type: "button", "aria-label": words, title: words, on: { click: act } }, icon(ICONS[name]));
  const section = (title, ...children) => h("section", {}, h("h2", {}, title), children);

  const root = h("div", { class: options.led ? "ds-viewer ds-led" : "ds-viewer" },
    h("div", { class: "ds-head" }, h("h2", { class: "ds-title" }, `Game ${all.id}, ${all.rules} rules`),
      h("p", {}, panels.standing(all))),
    h("div", { class: "ds-main" },
      h("div", { class: "ds-line" }, status, dice),
      board,
      h("div", { class: "ds-time" }, strip, slider),
      h("div", { class: "ds-controls" },
        button("first", "to the beginning", () => { pause(); show(0); }),
        button("previous", "one step back", () => { pause(); show(index - 1); }),
        playing,
        button("next", "one step on", () => { pause(); show(index + 1); }),
        button("last", "to the end", () => { pause(); show(last); }),
        pace,
        h("button", { type: "button", "aria-label": "help: keys and marks", on: { click: () => help.showModal() } }, "?")),
      say),
    h("div", { class: "ds-side" },
      h("label", { for: "ds-view" }, "Show"), who,
      section("Divers", cards, asked),
      h("section", { class: "ds-knowledge" }, h("h2", {}, "What is known"), knows)),
    h("div", { class: "ds-more" },
      h("section", { class: "ds-wide" }, h("h2", {}, "How the dives went"), dives),
      section("Turns", h("p", { class: "ds-small" }, "Diver, ▼ going down or ▲ home; dice less its load; from → to; air after the turn; what it did."), turnList),
      section("Decision times", h("p", { class: "ds-small" }, clock()),
        all.seats.map((_, seat) => panels.times(all, seat, area))),
      all.luck && section("Luck", h("p", { class: "ds-small" }, "What dice and hidden values gave and took so far, in placement score, by roll-outs."),
        all.seats.map((one, seat) => { const [words, picture] = coach.luck(all, seat, area);
          return h("figure", {}, h("figcaption", {}, panels.badge(seat), h("span", { class: "ds-name" }, one.name), words), picture); })),
      noted.length > 0 && section("Notes", h("p", { class: "ds-small" }, "The numbers that bots noted, each on a scale of its own."),
        noted.map(({ seat, words, picture }) => h("figure", {},
          h("figcaption", {}, panels.badge(seat), h("span", { class: "ds-name" }, all.seats[seat].name), words), picture))),
      section("Faults", panels.faults(all, link)),
      section("Share and check", share(game, all, { link: () => new URL(addressWith(place(index)), location.href).href,
        position: () => frames().frames[index].p, tell }))),
    notice, spoken, live, help);

  function clock() {
    const words = all.budget === null ? "No clock was running." :
      `Clock ${all.clock}: the dashed line is the budget of a decision` + (all.bank ? ", the other line what is left of the bank." : ".");
    return `${words} A longer bar is a longer time, on a logarithmic scale.`;
  }

  // What is shown

  function position(at) {
    const text = frames().frames[at].p;
    if (!positions.has(text)) positions.set(text, parsePosition(text));
    return positions.get(text);
  }

  /** A link to the last treasure that a seat took between two frames, as the seat saw it. */
  function lastTake(seat, after = -1, until = index) {
    const row = all.decisions.findLast((one) =>
      one.seat === seat && one.action === "take" && one.at > after && one.at <= until);
    if (!row || options.led) return null;
    const name = panels.LETTERS[seat];
    const knew = [...who.options].some((option) => option.value === name) ? name : view;
    return link(row.at, `last treasure: turn ${all.frames[row.at].t}`, knew);
  }

  function show(wanted) {
    const before = index;
    index = Math.max(0, Math.min(last, wanted));
    const frame = frames().frames[index];
    const now = position(index);
    draw(board, now);
    if (Math.abs(index - before) === 1 && !quiet.matches) glide(board, position(before), now, 450 / speed);
    status.textContent = `Turn ${frame.t} of ${turns}, dive ${now.dive}`;
    dice.replaceChildren(...(frame.dice ? [h("span", { class: "ds-hidden" }, "rolled "),
      ...frame.dice.map((face) => h("span", { class: "ds-die" }, String(face)))] : []));
    const words = frame.say.length ? frame.say : [comingUp(now)];
    say.replaceChildren(...words.map((text) => h("p", { class: text.startsWith("  ") ? "ds-more-say" : "" }, text.trim())));
    if (timer === null || speed <= 1) live.textContent = words.join(", ");
    slider.value = String(index);
    slider.setAttribute("aria-valuetext", `turn ${frame.t} of ${turns}, dive ${now.dive}`);
    cards.replaceChildren(...panels.seats(all, now, lastTake));
    asked.replaceChildren(...panels.asked(all, index));
    knows.replaceChildren(...panels.knowledge(all, now, knower()));
    spoken.replaceChildren(...panels.spoken(now, all));
    follow();
    remember();
  }

  function comingUp(now) {
    const mover = now.divers.find((d) => d.toMove);
    return mover && now.phase === "search" ? `${mover.seat} reaches space ${mover.space}` : "";
  }

  function knower() {
    if (view === "all") return "Everything is shown, also what no bot knew.";
    return view === "watcher" ? "What everybody knew at this moment." : `What ${view} knew at this moment.`;
  }

  function follow() {
    for (const current of turnList.querySelectorAll("[aria-current]")) current.removeAttribute("aria-current");
    let at = index;
    while (at > 0 && !lines.has(at)) at -= 1;
    const line = lines.get(at);
    if (!line) return;
    line.setAttribute("aria-current", "true");
    const item = line.parentElement;
    turnList.scrollTop = item.offsetTop - turnList.clientHeight / 2;
  }

  function remember() {
    if (options.led) return;
    try {
      history.replaceState(null, "", addressWith(place(index)));
    } catch {
      // A page without an address of its own: there is nothing to remember it in.
    }
  }

  /** Show the game as somebody saw it. */
  function choose(name) {
    if (known.has(name) || !options.load) {
      if (!known.has(name)) known.set(name, unpack(all, game.views[name]));
      enter(name);
      return;
    }
    options.load(name).then((seen) => {
      check(seen);
      known.set(name, seen);
      enter(name);
    }).catch((error) => {
      tell(`What ${name} knew cannot be shown: ${error.message}`);
      who.value = view;
    });
  }

  function enter(name) {
    view = name;
    who.value = name;
    lines = new Map();
    turnList.replaceChildren(...panels.story(frames(), link, lines));
    dives.replaceChildren(...panels.dives(frames(), link, lastTake));
    strip.replaceChildren(marks(frames(), (at) => { pause(); show(at); }));
    show(index);
  }

  // Time

  function play() {
    if (index === last) show(0);
    timer = setTimeout(tick, 0);
    drawPlaying();
  }

  function tick() {
    if (index >= last) { pause(); return; }
    show(index + 1);
    const { say } = all.frames[index];
    const ms = say.some((text) => text.startsWith("dive ")) ? 2400 : say.length ? 900 : 650;
    timer = setTimeout(tick, ms / speed);
  }

  function pause() {
    clearTimeout(timer);
    timer = null;
    drawPlaying();
  }

  function toggle() {
    if (timer === null) play(); else pause();
  }

  function drawPlaying() {
    const words = timer === null ? "play" : "pause";
    playing.setAttribute("aria-label", words);
    playing.setAttribute("title", words);
    playing.replaceChildren(icon(ICONS[words]));
  }

  function faster(by) {
    speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(speed) + by))];
    pace.value = String(speed);
  }

  function jump(by) {
    const ats = frames().marks.map((mark) => mark.at).filter((at) => (by > 0 ? at > index : at < index));
    pause();
    if (ats.length) show(by > 0 ? Math.min(...ats) : Math.max(...ats));
  }

  const acts = {
    " ": toggle, ArrowLeft: () => { pause(); show(index - 1); }, ArrowRight: () => { pause(); show(index + 1); },
    Home: () => { pause(); show(0); }, End: () => { pause(); show(last); },
    n: () => jump(1), p: () => jump(-1), "+": () => faster(1), "-": () => faster(-1), "?": () => help.showModal(),
  };

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || help.open) return;
    if (event.target.closest?.("input, select, textarea, [contenteditable]")) return;
    if (event.key === " " && event.target.closest?.("button, a, summary")) return;
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  }

  function tell(text) {
    notice.textContent = text;
  }

  /** Go where the address says. */
  function arrive() {
    if (options.led) { choose(view); return; }
    const { params } = address();
    const seat = params.get("seat") ?? view;
    const turn = params.get("turn");
    tell("");
    if (turn !== null) {
      const step = /^\d+$/.test(params.get("step") ?? "") ? Number(params.get("step")) : null;
      const at = /^\d+$/.test(turn) ? frameOf(Number(turn), step) : -1;
      if (at < 0) tell(`The game has the turns 0 to ${turns}, not ${turn.slice(0, 20)}.`);
      else index = at;
    }
    const names = [...who.options].map((option) => option.value);
    if (!names.includes(seat)) tell(`There is no view called ${seat.slice(0, 20)}; there are ${names.join(", ")}.`);
    choose(names.includes(seat) ? seat : view);
  }

  // Whatever is wrong with the frames comes out here, before the page is changed.
  all.frames.forEach((_, at) => position(at));
  drawPlaying();
  arrive();
  element.replaceChildren(root);
  follow();
  if (!options.led) document.addEventListener("keydown", pressed);
  window.addEventListener("hashchange", arrive);
  return {
    show,
    close() {
      pause();
      document.removeEventListener("keydown", pressed);
      window.removeEventListener("hashchange", arrive);
      root.remove();
    },
  };
}
