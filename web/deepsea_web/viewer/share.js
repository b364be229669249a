// The buttons to copy, to download and to check a game.

import { h } from "./dom.js";

/** What goes into the panel. `link` and `position` give the texts to copy, `tell` shows a message. */
export function share(game, all, { link, position, tell }) {
  const copy = (words, text) => h("button", { type: "button", on: { click: async () => {
    try {
      await navigator.clipboard.writeText(text());
      tell(`${words}: done`);
    } catch {
      tell(`This browser does not let the page copy; here it is: ${text()}`);
    }
  } } }, words);
  const save = (words, name, text) => h("button", { type: "button", on: { click: () => {
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    h("a", { href: url, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  } } }, words);
  return [
    h("p", { class: "ds-buttons" },
      copy("Copy link", link),
      copy("Copy position", position),
      game.record ? save("Download record", game.file ?? "record.json", game.record) : null,
      save("Download frames", "frames.json", JSON.stringify(all))),
    game.verify ? h("p", {}, "To check that the result follows from seed and decisions: ", h("code", {}, game.verify)) : null,
    h("p", { class: "ds-small" }, `Rules ${all.rules}, clock ${all.clock || "none"}, seed `, h("code", {}, all.seed)),
  ];
}
