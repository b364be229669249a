// The viewer on the page of a game; without it the page has the game as text.

import { mount } from "./viewer.js";

const EVERY_MS = 3000;
const stage = document.getElementById("stage");

async function frames(seat) {
  const answer = await fetch(seat ? `${stage.dataset.frames}?seat=${encodeURIComponent(seat)}` : stage.dataset.frames);
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.error);
  for (const { decision, text, numbers } of await notes) Object.assign(found.decisions[decision] ?? {}, { note: text, numbers });
  return found;
}

/** Another page, whose scripts do not run; null if there is none. */
function pageAt(address) {
  return new Promise((resolve) => {
    const request = new XMLHttpRequest();
    request.responseType = "document";
    request.onloadend = () => resolve(request.status === 200 ? request.response : null);
    request.open("GET", address);
    request.send();
  });
}

/** Put what the reader's own bots left of the game into the page, if they played; their notes. */
async function ownNotes() {
  const { author } = document.documentElement.dataset;
  const rows = [...document.querySelectorAll("tr[data-author]")];
  if (!rows.some((row) => row.dataset.author === author)) return [];
  const place = document.getElementById("own");
  const own = (await pageAt(place.dataset.address))?.getElementById("own");
  if (!own) return [];
  place.replaceWith(document.adoptNode(own));
  return JSON.parse(own.querySelector("#notes").textContent);
}

/** Show how far the analysis is, until it has ended; without scripts the page asks again by itself. */
async function followAnalysis() {
  const now = (await pageAt(location.pathname))?.getElementById("analysis");
  if (now && !("waits" in now.dataset)) {
    location.reload(); // the address has the place in the game
    return;
  }
  const state = document.getElementById("analysis-state");
  const words = now?.querySelector("#analysis-state").textContent ?? state.textContent;
  if (state.textContent !== words) state.textContent = words;
  setTimeout(followAnalysis, EVERY_MS);
}

const notes = ownNotes();
if (document.querySelector("#analysis[data-waits]")) setTimeout(followAnalysis, EVERY_MS);
try {
  mount(stage, { frames: await frames(), verify: stage.dataset.verify }, { load: frames });
} catch (error) {
  document.getElementById("problem").textContent = `The game cannot be drawn: ${error.message}`;
}
