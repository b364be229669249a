// The page of a running match: results and games come as server-sent events, the newest game plays.
// The page of one game uses it too; its stream tells the server that somebody still reads.

import { h, mount } from "./viewer.js";

const alone = document.body.dataset.game;
const base = new URL(alone ? "../" : "./", location.href);
const part = (id) => document.getElementById(id);
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let viewer = null;
let shown = null;
let newest = null;
let playing = false;
let speed = 4;
let over = null;

/** Show a game at an address, to which the viewer adds the turn. */
async function open(number, plays, address = location.href) {
  shown = number;
  playing = plays;
  try {
    const answer = await fetch(new URL(`games/${number}.json`, base));
    if (!answer.ok) throw new Error((await answer.text()).slice(0, 200));
    const game = await answer.json();
    if (shown !== number) return;
    viewer?.close();
    history.replaceState(null, "", address);
    if (!alone) mark(number);
    part("problem").textContent = "";
    viewer = mount(part("stage"), game, { play: plays, speed, ended });
  } catch (error) {
    playing = false;
    part("problem").textContent = `Game ${number} cannot be shown: ${error.message}`;
  }
}

function ended(pace) {
  speed = pace;
  playing = false;
  follow();
}

/** Go on to the newest game, unless one is playing. */
function follow() {
  if (alone || !part("follow").checked || playing || newest === null || newest === shown) return;
  choose(newest, true);
}

function choose(number, followed) {
  // With reduced motion nothing plays and nothing changes by itself: the newest game comes once.
  if (calm.matches) part("follow").checked = false;
  open(number, followed && !calm.matches, `#${followed ? "newest" : "game"}=${number}`);
}

function mark(number) {
  part("shown").textContent = `Game ${number}`;
  for (const link of part("games").querySelectorAll("a")) {
    if (Number(link.dataset.game) === number) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

function list(games) {
  const all = part("games");
  for (const { number, words } of games) {
    if (all.querySelector(`[data-game="${Number(number)}"]`)) continue;
    const link = h("a", { href: `games/${number}`, "data-game": number }, `${number}: ${words}`);
    all.prepend(h("li", {}, link));
    newest = number;
  }
  while (all.children.length > Number(all.dataset.kept)) all.lastElementChild.remove();
}

function row(tag, words) {
  const looks = tag === "th" ? { scope: "col" } : {};
  return h("tr", {}, words.map((word) => h(tag, looks, h("bdi", {}, word))));
}

function update(news) {
  over = news.over;
  if (alone) return;
  part("facts").textContent = news.facts;
  part("state").textContent = over ?? "being played";
  part("head").replaceChildren(row("th", news.table.head));
  part("rows").replaceChildren(...news.table.rows.map((words) => row("td", words)));
  list(news.games);
  follow();
}

function listen() {
  const stream = new EventSource(new URL("news", base));
  stream.onmessage = (event) => update(JSON.parse(event.data));
  stream.onerror = () => {
    // After the match the server goes; what is loaded stays.
    if (over !== null) stream.close();
    if (alone) return;
    part("state").textContent = over === null ? "the connection is lost" : `${over}; this page is not served any more`;
  };
}

if (alone) {
  open(Number(alone), false);
} else {
  const first = part("games").querySelector("a");
  newest = first ? Number(first.dataset.game) : null;
  part("follow").addEventListener("change", follow);
  part("games").addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    part("follow").checked = false;
    choose(Number(link.dataset.game), false);
  });
  const asked = /^#game=(\d+)/.exec(location.hash);
  if (asked) {
    part("follow").checked = false;
    open(Number(asked[1]), false);
  }
}
listen();
