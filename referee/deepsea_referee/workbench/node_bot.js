const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");

// keepCase: fields are called as in the proto; defaults: what is missing is 0, "" or [];
// longs: ids and times as texts; enums: their names instead of numbers.
const options = { keepCase: true, defaults: true, longs: String, enums: String };
const definition = loader.loadSync(`${__dirname}/play.proto`, options);
const { PlayService } = grpc.loadPackageDefinition(definition).deepsea.play.v1;

// Takes chips until it carries two, then turns back.
function decide(seat, { kind, view, legal }) {
  const { cargo, space } = view.divers[seat];
  switch (kind) {
    case "DECISION_KIND_DECLARE":
      return cargo.length >= 2 ? "back" : "down";
    case "DECISION_KIND_SEARCH": {
      const unit = view.trail[space - 1]; // 0: nothing; 1 to 32: a chip; 33 + i: stacks[i]
      return unit && cargo.length < 2 && legal.includes("take") ? "take" : "leave";
    }
    default: // the order of a stranded diver's items, or a kind that is newer than this bot
      return legal[0];
  }
}

const client = new PlayService(process.env.DEEPSEA_ADDRESS, grpc.credentials.createInsecure());
const stream = client.Play();
const seats = new Map(); // the seat in each game

stream.on("data", ({ starts, faults, requests, results, goodbye }) => {
  for (const { game_id, seat } of starts) seats.set(game_id, seat);
  for (const { message } of faults) console.error(message);
  const decisions = requests.map((request) => {
    try {
      return { request_id: request.request_id, action: decide(seats.get(request.game_id), request) };
    } catch (error) { // a fault, but the game goes on; the last line is what is shown first
      return { request_id: request.request_id, error: `${error.stack}\n${error}` };
    }
  });
  if (decisions.length) stream.write({ decisions });
  for (const { game_id } of results) seats.delete(game_id);
  if (goodbye) stream.end();
});
stream.on("error", (error) => { console.error(error.message); process.exitCode = 1; });
stream.on("end", () => client.close());
stream.write({ hello: { token: process.env.DEEPSEA_TOKEN, sdk: "none", features: ["concurrent_games"] } });
