// The newest results, which come as server-sent events; without it the list is that of the page.

const state = document.getElementById("state");
const list = document.getElementById("feed");

function add({ url, id, words, played }) {
  const link = document.createElement("a");
  link.href = url;
  link.textContent = id;
  if ([...list.querySelectorAll("a")].some((one) => one.textContent === id)) return;
  const result = document.createElement("span");
  result.textContent = words;
  const time = document.createElement("span");
  time.className = "soft";
  time.textContent = played;
  const item = document.createElement("li");
  item.append(link, " ", result, " ", time);
  list.prepend(item);
  while (list.children.length > Number(list.dataset.most)) list.lastElementChild.remove();
}

/** Listen for results; `tv` is called with what is on TV. */
export function listen(tv) {
  const stream = new EventSource(`${state.dataset.events}?after=${Number(state.dataset.seq)}`);
  const say = (words) => { if (state.textContent !== words) state.textContent = words; };
  stream.onopen = () => say("Newer results come by themselves.");
  stream.addEventListener("games", (event) => {
    document.getElementById("none")?.remove();
    JSON.parse(event.data).forEach(add);
    state.dataset.seq = event.lastEventId;
  });
  stream.addEventListener("reload", () => location.reload());
  if (tv) stream.addEventListener("tv", (event) => tv(JSON.parse(event.data)));
  stream.onerror = () => {
    say("The connection is lost; it is tried again.");
    if (stream.readyState !== EventSource.CLOSED) return;  // the browser tries again by itself
    setTimeout(() => listen(tv), 10000 + 20000 * Math.random());
  };
}

if (!document.getElementById("stage")) listen();
