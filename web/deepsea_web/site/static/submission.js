// The steps of a submission as they happen; without it the page asks again by itself.

const steps = document.getElementById("steps");
const state = document.getElementById("state");
const progress = document.getElementById("progress");
const how = document.getElementById("how");

if (steps.dataset.events) {
  const stream = new EventSource(steps.dataset.events);
  stream.addEventListener("step", (event) => {
    const step = JSON.parse(event.data);
    if (step.state !== "queued" && step.state !== "running") {
      stream.close();
      location.reload();
      return;
    }
    if (state.textContent !== step.words) state.textContent = step.words;
    if (step.state === "running") document.getElementById("waited")?.remove();
    progress.max = step.of_games || 1;
    progress.value = step.games;
    how.textContent = "Each step is shown as it happens.";
  });
  stream.onerror = () => {
    how.textContent = "The connection is lost; it is tried again.";
    // Closed for good: the login has ended, which the page says, or there is no place for a stream.
    if (stream.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 2000);
  };
}
