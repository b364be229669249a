// The viewer on the page of a game; without it the page has the game as text.

import { mount } from "./viewer.js";

const stage = document.getElementById("stage");
// Of the reader's own bots.
const notes = JSON.parse(document.getElementById("notes")?.textContent ?? "[]");

async function frames(seat) {
  const answer = await fetch(seat ? `${stage.dataset.frames}?seat=${encodeURIComponent(seat)}` : stage.dataset.frames);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  for (const { decision, text, numbers } of notes) Object.assign(found.decisions[decision] ?? {}, { note: text, numbers });
  return found;
}

try {
  mount(stage, { frames: await frames(), verify: stage.dataset.verify }, { load: frames });
} catch (error) {
  document.getElementById("problem").textContent = `The game cannot be drawn: ${error.message}`;
}
