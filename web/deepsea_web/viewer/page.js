// The self-contained page: its games are in data blocks, or come from a file that is dropped on it.

import { h } from "./dom.js";
import { mount } from "./viewer.js";

const GAMES = 'script[type="application/json"].ds-game';

/** Replace the story by the viewer; the page has a <main> and a place for its controls. */
export function start() {
  const main = document.querySelector("main");
  const controls = document.getElementById("ds-page");
  const stage = h("div");
  const problem = h("p", { class: "ds-notice", role: "alert" });
  const blocks = [...document.querySelectorAll(GAMES)];
  let viewer = null;

  const parameter = (name) => new URLSearchParams(location.hash.slice(1)).get(name);

  function open(game) {
    problem.textContent = "";
    try {
      const next = mount(stage, game);
      viewer?.close();
      viewer = next;
    } catch (error) {
      problem.textContent = `This game cannot be shown: ${error.message}.`;
    }
  }

  function pick(number) {
    const block = blocks[number];
    if (!block) {
      problem.textContent = `There are the games 1 to ${blocks.length}, not ${parameter("game")?.slice(0, 20)}.`;
      return;
    }
    for (const link of document.querySelectorAll("[data-game]")) {
      if (Number(link.dataset.game) === number) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    open(JSON.parse(block.textContent));
  }

  async function read(file) {
    if (!file) return;
    let game;
    try {
      game = JSON.parse(await file.text());
    } catch {
      problem.textContent = `${file.name.slice(0, 80)} is no JSON; make frames with: deepsea-referee show RECORD --frames`;
      return;
    }
    history.replaceState(null, "", "#");
    open(game);
  }

  for (const link of document.querySelectorAll("[data-game]")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      history.replaceState(null, "", `#game=${Number(link.dataset.game) + 1}`);
      pick(Number(link.dataset.game));
    });
  }
  const input = h("input", { type: "file", accept: ".json,application/json", class: "ds-hidden",
    on: { change: () => {
      const [file] = input.files;
      input.value = "";  // so that the same file can be opened again
      read(file);
    } } });
  controls.append(
    h("label", { class: "ds-button" }, input, "Open frames"),
    theme());
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    read(event.dataTransfer.files[0]);
  });
  main.replaceChildren(problem, stage);
  if (blocks.length) pick(Math.max(0, Number(parameter("game") ?? 1) - 1));
}

function theme() {
  const root = document.documentElement;
  const stored = () => {
    try { return localStorage.getItem("deepsea-theme") ?? "auto"; } catch { return "auto"; }
  };
  const set = (name) => {
    if (name === "auto") root.removeAttribute("data-theme"); else root.setAttribute("data-theme", name);
  };
  const choice = h("select", { "aria-label": "colours", on: { change: () => {
    set(choice.value);
    try { localStorage.setItem("deepsea-theme", choice.value); } catch { /* only remembered where there is a place */ }
  } } }, ["auto", "light", "dark"].map((name) => h("option", { value: name }, `${name} colours`)));
  choice.value = stored();
  set(choice.value);
  return choice;
}
