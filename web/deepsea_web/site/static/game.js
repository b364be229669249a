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

/** The game of a page that is a file, and has it. */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

try {
  const { packed, verify } = stage.dataset;
  if (packed) mount(stage, { ...await unpacked(packed), verify });
  else mount(stage, { frames: await frames(), verify }, { load: frames });
} catch (error) {
  document.getElementById("problem").textContent = `The game cannot be drawn: ${error.message}`;
}
