// What every page has besides its text: the choice of colours, marks of what is the reader's own, and
// how long it is until a time. Without it everything can be read.

const KEY = "deepsea-theme";
const root = document.documentElement;

function themeChoice() {
  const choice = document.createElement("select");
  choice.setAttribute("aria-label", "Colours");
  for (const [value, words] of [["auto", "Auto"], ["light", "Light"], ["dark", "Dark"]]) {
    const option = document.createElement("option");
    option.value = value;
    option.textContent = words;
    choice.append(option);
  }
  choice.value = root.dataset.theme ?? "auto";
  choice.addEventListener("change", () => {
    if (choice.value === "auto") delete root.dataset.theme;
    else root.dataset.theme = choice.value;
    try { localStorage.setItem(KEY, choice.value); } catch { /* kept for this page only */ }
  });
  return choice;
}

document.getElementById("theme")?.append(themeChoice());

// The rows of the reader's own bots.
for (const author of document.querySelectorAll(".standings th small")) {
  if (author.textContent !== root.dataset.author) continue;
  const tag = document.createElement("span");
  tag.className = "tag";
  tag.textContent = "yours";
  author.before(" ", tag);
  author.closest("tr").classList.add("mine");
}

// The minutes that were left by the ladder's clock when the page was made; the reader's may be wrong.
function countDown(words) {
  const atFirst = Number(words.dataset.left);
  const show = () => {
    const left = Math.floor(atFirst - performance.now() / 60000);
    const days = Math.floor(left / 1440), hours = Math.floor(left / 60) % 24, minutes = left % 60;
    words.textContent = left < 0 ? ", which is over"
      : days ? `, in ${days} d ${hours} h` : hours ? `, in ${hours} h ${minutes} min` : `, in ${minutes} min`;
  };
  setInterval(show, 10000);
}

for (const words of document.querySelectorAll("[data-left]")) countDown(words);

// A time where the reader is, such as 2026-11-27 10:30.
function here(time) {
  const two = (number) => String(number).padStart(2, "0");
  return `${time.getFullYear()}-${two(time.getMonth() + 1)}-${two(time.getDate())} ${two(time.getHours())}:${two(time.getMinutes())}`;
}

for (const element of document.querySelectorAll("time[data-here]")) {
  const time = new Date(element.dateTime);
  if (!time.getTimezoneOffset()) continue;
  const there = element.textContent;
  element.textContent = here(time);
  const isSameDay = there.slice(0, 10) === element.textContent.slice(0, 10);
  element.nextElementSibling.textContent = `(${isSameDay ? there.slice(11) : there} UTC)`;
}

// Fields for times are filled in where the reader is; forms have and send UTC.
for (const field of document.querySelectorAll("input[type=datetime-local]")) {
  const sent = document.createElement("input"), words = document.createElement("small");
  sent.type = "hidden";
  sent.name = field.name;
  field.removeAttribute("name");
  field.labels[0].textContent = field.labels[0].textContent.replace("in UTC", "in your time");
  // What a browser has kept of a page before would be in the reader's time already.
  field.value = field.defaultValue && here(new Date(`${field.defaultValue}Z`)).replace(" ", "T");
  const show = () => {
    const time = new Date(field.value);
    sent.value = Number.isNaN(time.getTime()) ? "" : time.toISOString().slice(0, -8);
    words.textContent = sent.value && `${sent.value.replace("T", " ")} UTC`;
  };
  field.after(sent, words);
  field.addEventListener("input", show);
  show();
}

// A rating course: a line at the point that is pointed at or chosen with keys, and its numbers.

const SVG = "http://www.w3.org/2000/svg";

function follow(figure) {
  const points = JSON.parse(figure.dataset.points);
  const plots = [...figure.querySelectorAll("[data-area]")].map((element) => {
    const [left, right, top, bottom, games, low, high] = JSON.parse(element.dataset.area);
    const picture = element.querySelector("svg");
    const line = document.createElementNS(SVG, "path");
    line.setAttribute("class", "cross");
    const dot = document.createElementNS(SVG, "circle");
    dot.setAttribute("class", "at");
    dot.setAttribute("r", "3.5");
    const x = (game) => left + (right - left) * game / games;
    const y = (value) => bottom - (bottom - top) * Math.max(0, Math.min(1, (value - low) / (high - low)));
    return {
      element, picture,
      game: (across) => (across - left) / (right - left) * games,
      show([game, , rating]) {
        line.setAttribute("d", `M${x(game)} ${top}V${bottom}`);
        dot.setAttribute("cx", x(game));
        dot.setAttribute("cy", y(rating));
        if (!line.isConnected) picture.append(line, dot);
      },
    };
  });
  const words = document.createElement("output");
  const slider = document.createElement("input");
  slider.type = "range";
  slider.max = points.length - 1;
  slider.value = points.length - 1;
  slider.setAttribute("aria-label", "Point of the rating course");

  const show = () => {
    const point = points[slider.value];
    const [game, version, rating, mu, spread] = point;
    const text = `game ${game.toLocaleString("en")}, v${version}: rating ${rating.toFixed(1)}, mu ${mu.toFixed(1)} ± ${spread.toFixed(1)}`;
    for (const plot of plots) plot.show(point);
    words.textContent = text;
    slider.setAttribute("aria-valuetext", text);
  };
  const nearest = (game) => {
    let found = 0;
    for (let index = 1; index < points.length; index += 1) {
      if (Math.abs(points[index][0] - game) < Math.abs(points[found][0] - game)) found = index;
    }
    return found;
  };
  for (const plot of plots) {
    const at = (event) => {
      const box = plot.picture.getBoundingClientRect();
      const scale = plot.picture.viewBox.baseVal.width / box.width;
      slider.value = nearest(plot.game((event.clientX - box.left) * scale));
      show();
    };
    plot.element.addEventListener("pointermove", at);
    plot.element.addEventListener("pointerdown", at);
  }
  slider.addEventListener("input", show);
  figure.querySelector("figcaption").prepend(words, slider);
  show();
}

for (const figure of document.querySelectorAll("figure[data-points]")) follow(figure);
