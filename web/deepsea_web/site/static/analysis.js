// How far the analysis of a game is; without it the page asks again by itself.

const EVERY_MS = 3000;
const section = document.getElementById("analysis");
const words = document.getElementById("analysis-state");

function tell({ state, ahead }) {
  return words.dataset[state === "queued" ? (ahead ? "waits" : "next") : state].replace("{}", ahead);
}

async function look() {
  try {
    const answer = await fetch(section.dataset.json, { cache: "no-cache" });
    if (answer.ok) {
      const { last } = (await answer.json()).analyses;
      if (last.state === "done" || last.state === "failed") {
        location.reload(); // the address has the place in the game
        return;
      }
      const said = tell(last);
      if (words.textContent !== said) words.textContent = said;
    }
  } catch {
    // The server is away for a moment: later.
  }
  setTimeout(look, EVERY_MS);
}

setTimeout(look, EVERY_MS);
