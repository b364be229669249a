// Reads back from a board what is drawn on it: shapes, texts and places, not the notes for tests.
window.readBoard = (board) => {
  const shapes = Object.entries(window.viewer.LAYOUT.shapes);
  const texts = (element, looks) =>
    [...element.querySelectorAll(`:scope > ${looks}`)].map((one) => one.textContent);
  const place = (element) => element.getAttribute("transform").match(/-?\d+/g).map(Number);
  const spaces = [...board.querySelectorAll(".ds-space")].map((space) => {
    const path = space.querySelector(":scope > .ds-chip")?.getAttribute("d");
    return {
      at: place(space),
      number: texts(space, ".ds-number")[0],
      blank: space.querySelector(":scope > .ds-blank") !== null,
      shape: path ? shapes.find(([, shape]) => shape === path)[0] : null,
      level: texts(space, ".ds-level")[0] ?? null,
      stack: space.querySelector(":scope > .ds-stack") ? texts(space, ".ds-stacked").join(" ") : null,
      laid: space.querySelector(":scope > .ds-laid") !== null,
      worth: texts(space, ".ds-value")[0] ?? null,
    };
  });
  const divers = [...board.querySelectorAll(".ds-diver")].map((diver) => {
    const arrow = diver.querySelector(".ds-arrow")?.getAttribute("d");
    return {
      at: place(diver),
      letter: texts(diver, ".ds-letter")[0],
      // The tip of the arrow is its last corner.
      heading: arrow ? (Number(arrow.match(/-?\d+(?=Z)/)[0]) > 0 ? "down" : "home") : null,
      barred: texts(diver, ".ds-barred").length > 0,
      moves: diver.classList.contains("ds-moves"),
      home: texts(diver.parentElement, ".ds-home")[0] ?? null,
    };
  });
  const air = board.querySelector(".ds-air");
  return {
    spaces, divers,
    rope: board.querySelector(".ds-rope").getAttribute("points").split(" ").length - 1,
    air: texts(air, ".ds-figure")[0],
    bar: air.querySelectorAll(".ds-on").length,
    dive: texts(air, ".ds-label")[1],
  };
};
