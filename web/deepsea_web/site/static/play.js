// The page of a person's seat: positions come as server-sent events and are shown at human pace;
// then the panel of the same page, made by the server, takes the place of the old one. What may be
// done, the panel's buttons say.

import { draw, emptyBoard, glide, h, parsePosition, seats, spoken } from "./viewer.js";

const PACES = [["0.5", "slow"], ["1", "normal"], ["2", "fast"], ["4", "faster"], ["0", "at once"]];
const calm = matchMedia("(prefers-reduced-motion: reduce)");
const part = (id) => document.getElementById(`seat-${id}`);

/** Draw the boards of a part of the page, which has their positions in notation. */
function drawBoards(root) {
  for (const place of root.querySelectorAll("[data-position]")) {
    const board = emptyBoard();
    draw(board, parsePosition(place.dataset.position));
    place.replaceChildren(board);
  }
}

/** Follow the seat of the page. */
function sit(root) {
  const { address, place } = root.dataset;
  const game = { seats: named(JSON.parse(root.dataset.names)) };
  const waiting = [];
  let position = null;
  let told = [];
  let timer = null;
  let pace = Number(remembered() ?? (calm.matches ? 0 : 1));
  let asks = 0;

  function named(names) {
    return names.map((name) => ({ name }));
  }

  function remembered() {
    try { return localStorage.getItem("deepsea-pace"); } catch { return null; }
  }

  function show(frame, gliding) {
    const now = parsePosition(frame.p);
    const svg = part("board").firstElementChild;
    draw(svg, now);
    if (gliding && position && !calm.matches) glide(svg, position, now, 450 / pace);
    position = now;
    part("status").textContent = `Turn ${frame.t}, dive ${now.dive}`;
    part("dice").replaceChildren(...(frame.dice ?? []).map((face) => h("span", { class: "ds-die" }, String(face))));
    part("say").replaceChildren(...frame.say.map((text) => h("p", {}, text.trim())));
    part("cards").replaceChildren(h("ul", { class: "ds-cards" }, ...seats(game, now, () => null)));
    part("spoken").replaceChildren(...spoken(now, game));
  }

  function step() {
    timer = null;
    const frame = waiting.shift();
    if (!frame) { renew(); return; }
    told.push(...frame.say);
    show(frame, pace > 0 && waiting.length < 40);
    if (pace === 0 && waiting.length) { step(); return; }
    const ms = frame.say.some((text) => text.startsWith("dive ")) ? 2400 : frame.say.length ? 900 : 650;
    timer = setTimeout(step, pace && waiting.length ? ms / pace : 0);
  }

  function skip() {
    if (timer === null || !waiting.length) return;
    clearTimeout(timer);
    told.push(...waiting.flatMap((frame) => frame.say));
    show(waiting.pop(), false);
    waiting.length = 0;
    step();
  }

  /** Put the panel of the page as it is now in the place of the old one. */
  function renew() {
    const asked = new XMLHttpRequest();
    const number = (asks += 1);
    asked.responseType = "document";  // text of bots is escaped by the server, and no script runs
    asked.onload = () => {
      const fresh = asked.response?.getElementById("seat-panel");
      if (!fresh || number !== asks || waiting.length) return;
      document.title = asked.response.title;
      document.querySelector("h1").textContent = asked.response.querySelector("h1").textContent;
      part("panel").replaceWith(document.adoptNode(fresh));
      drawBoards(part("panel"));
      arrived();
    };
    asked.open("GET", location.pathname);
    asked.send();
  }

  function lost() {
    part("problem").textContent = "The game does not answer: its server has ended, or the connection is lost.";
  }

  function arrived() {
    const say = part("question").dataset.say;
    if (!say) return;
    part("live").textContent = [...told, say].join(". ");
    told = [];
    (part("actions") ?? part("question")).focus({ preventScroll: matchMedia("(min-width: 900px)").matches });
    countDown();
  }

  function countDown() {
    const left = part("left");
    if (!left) return;
    const end = performance.now() + 1000 * Number(left.textContent);
    const tick = () => {
      left.textContent = String(Math.max(0, Math.round((end - performance.now()) / 1000)));
      if (left.isConnected) setTimeout(tick, 1000);
    };
    tick();
  }

  root.addEventListener("submit", (event) => {
    const { target: form, submitter } = event;
    if (form.elements.what.value === "next") return;  // its answer is another page
    event.preventDefault();
    fetch(form.getAttribute("action"), { method: "POST", body: new URLSearchParams(new FormData(form, submitter)), redirect: "manual" })
      .catch(lost);
    part("panel").setAttribute("aria-busy", "true");
  });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (event.key === "s") { skip(); return; }
    const element = [...part("panel").querySelectorAll("[data-key]")].find((one) =>
      one.dataset.key === event.key && one.checkVisibility());
    if (!element || timer !== null) return;
    event.preventDefault();
    element.click();
  });

  const chosen = h("select", { "aria-label": "pace of the game" },
    ...PACES.map(([value, words]) => h("option", { value }, words)));
  chosen.value = String(pace);
  chosen.addEventListener("change", () => {
    pace = Number(chosen.value);
    try { localStorage.setItem("deepsea-pace", chosen.value); } catch { /* kept for this page only */ }
  });
  const skipping = h("button", { type: "button" }, "skip (s)");
  skipping.addEventListener("click", skip);
  part("pace").append(chosen, skipping);
  part("pace").hidden = false;

  drawBoards(root);
  show(JSON.parse(root.dataset.last), false);
  arrived();
  const stream = new EventSource(`${address}news?after=${place}`);
  stream.onmessage = (event) => {
    const { names, frames, waits } = JSON.parse(event.data);
    game.seats = named(names);
    waiting.push(...frames);
    if (timer !== null) return;
    // Bots that answer at once leave no time to read that they play.
    if (waiting.length) step();
    else timer = setTimeout(step, waits ? 400 : 0);
  };
  stream.onopen = () => { part("problem").textContent = ""; };
  // While something is shown, there is time to connect again; after the end nothing comes.
  stream.onerror = () => {
    if ("over" in part("panel").dataset) stream.close();
    else if (timer === null) lost();
  };
}

const enter = document.getElementById("enter");
const code = location.hash.slice(1);
if (enter && code) {
  history.replaceState(null, "", location.pathname);
  enter.elements.code.value = code;
  enter.submit();
}
const root = document.getElementById("seat");
if (root) sit(root);
