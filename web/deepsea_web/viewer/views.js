// Frames as a page holds them in less space (deepsea_web/assets.py): what a seat saw as the
// difference to everything.

/** The version of frames that this viewer draws. */
export const VERSION = 1;

/** Raises an Error with a sentence for the reader if these are no frames that can be drawn. */
export function check(frames) {
  if (frames?.format) {
    throw new Error("this is a record; turn it into frames: deepsea-referee show RECORD --frames");
  }
  if (typeof frames?.v !== "number" || !Array.isArray(frames.frames) || !frames.frames.length) {
    throw new Error("these are no frames of a game");
  }
  if (frames.v > VERSION) {
    throw new Error(`these frames have version ${frames.v}, this viewer knows version ${VERSION}: ` +
      "update deepsea-referee");
  }
}

/** The frames of one viewer, from those with everything. */
export function unpack(all, packed) {
  const banks = all.seats.map(() => "");
  const changes = [...packed.banks];
  const frames = all.frames.map((frame, index) => {
    while (changes.length && changes[0][0] <= index) {
      const [, seat, bank] = changes.shift();
      banks[seat] = bank;
    }
    return {
      ...frame,
      p: packed.p[index] ?? conceal(frame.p, banks),
      say: packed.say[index] ?? frame.say,
    };
  });
  const marks = all.marks.filter((mark) => mark.kind !== "lead").concat(packed.lead);
  marks.sort((one, other) => one.at - other.at);
  const dives = all.dives.map((dive) => ({ ...dive, seats: [...dive.seats] }));
  for (const [dive, seat, chips, say] of packed.dives) {
    dives[dive].seats[seat] = { ...dives[dive].seats[seat], chips, say };
  }
  return { ...all, frames, marks, dives };
}

/** The position without values, but with these banks. */
function conceal(position, banks) {
  const bare = position.replace(/=\d+/g, "").replace(/[[{][^\]}]*/g, (stack) => stack.replaceAll(",", ""));
  const [trail, divers, clock] = bare.split("|");
  const words = divers.trim().split(" ").map((word, seat) =>
    word.split("/")[0] + (banks[seat] ? `/${banks[seat]}` : ""));
  return `${trail}| ${words.join(" ")} |${clock}`;
}
