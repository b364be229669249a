// A game at human pace: the server says when each frame is shown, so everybody sees the same one.

import { listen } from "./feed.js";
import { mount } from "./viewer.js";

const part = (id) => document.getElementById(id);
const pause = part("pause");
let program = null;
let begun = 0;
let viewer = null;
let timer = null;
let paused = matchMedia("(prefers-reduced-motion: reduce)").matches;

function follow() {
  clearTimeout(timer);
  if (viewer === null || paused) return;
  const now = performance.now() - begun;
  const index = Math.max(0, program.starts.findLastIndex((start) => start <= now));
  viewer.show(index);
  const next = program.starts[index + 1];
  if (next !== undefined) timer = setTimeout(follow, Math.max(0, next - now));
}

async function open(next) {
  if (program?.id === next.id) return;  // the same, after a new connection
  const arrived = performance.now();
  try {
    const answer = await fetch(next.frames);
    const game = await answer.json();
    if (!answer.ok) throw new Error(game.error);
    program = next;
    begun = arrived - next.elapsed;
    viewer?.close();
    viewer = mount(part("stage"), game, { led: true });
    const link = document.createElement("a");
    link.href = next.url;
    link.textContent = `Game ${next.id}`;
    part("shown").replaceChildren(link, `: ${next.words}`);
    part("problem").textContent = "";
    pause.hidden = false;
    // Who wins is seen at the end.
    for (const one of part("feed").children) {
      one.classList.toggle("on-tv", one.querySelector("a").textContent === next.id);
    }
    follow();
  } catch (error) {
    part("problem").textContent = `Game ${next.id} cannot be shown: ${error.message}`;
  }
}

function draw() {
  pause.textContent = paused ? "Follow" : "Pause";
}

pause.addEventListener("click", () => {
  paused = !paused;
  draw();
  follow();
});
draw();
listen(open);
