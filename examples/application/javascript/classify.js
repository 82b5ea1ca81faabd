// Classify binary PPM or PGM pictures with the board's model, and pick up each new model that the agent publishes.
//
//     npm install
//     node classify.js /var/lib/edgestill-model leaf.ppm            once
//     node classify.js /var/lib/edgestill-model leaf.ppm --watch    again whenever the model is replaced
//
// The model must take raw bytes: raw_input = true in [model] of agent.toml.

const fs = require("fs");
const path = require("path");
const ort = require("onnxruntime-node");

// The card names its graph, whose content never changes: the two always belong together.
async function load(folder) {
  const card = JSON.parse(fs.readFileSync(path.join(folder, "current.json"), "utf8"));
  if (card.input.dtype !== "uint8" || card.output !== "probabilities") {
    throw new Error(`the model takes ${card.input.dtype}; set raw_input = true in [model] of agent.toml`);
  }
  const session = await ort.InferenceSession.create(path.join(folder, card.file), {
    intraOpNumThreads: 1,
    extra: { session: { disable_quant_qdq: "1" } }, // levels of weights are dequantized once, at the start
  });
  return { card, session };
}

// Channels first: all of the first channel, then all of the second, ...
function readPicture(file, [channels, height, width]) {
  const data = fs.readFileSync(file);
  const header = /^P([56])\s+(?:#[^\n]*\s+)*(\d+)\s+(\d+)\s+255\s/.exec(data.subarray(0, 200).toString("latin1"));
  const found = header && `${header[1] === "6" ? 3 : 1}x${header[3]}x${header[2]}`;
  if (found !== `${channels}x${height}x${width}`) {
    throw new Error(`${file}: the model takes a binary PPM or PGM of ${channels}x${height}x${width}, this is ${found}`);
  }
  const pixels = data.subarray(header[0].length);
  const size = height * width;
  if (pixels.length < channels * size) throw new Error(`${file}: cut short`);
  return Uint8Array.from({ length: channels * size }, (_, i) => pixels[(i % size) * channels + Math.floor(i / size)]);
}

async function classify({ card, session }, file) {
  const input = new ort.Tensor("uint8", readPicture(file, card.input.shape), [1, ...card.input.shape]);
  const { probabilities } = await session.run({ input });
  const best = probabilities.data.indexOf(Math.max(...probabilities.data));
  const label = card.class_names[best] ?? String(best);
  console.log(`${file} ${label} ${probabilities.data[best].toFixed(3)} round ${card.round}`);
}

async function main(folder, file, watch) {
  let model = await load(folder);
  await classify(model, file);
  if (watch !== "--watch") return;
  // The card is replaced by a rename: watch its folder, not the file.
  fs.watch(folder, async (_, name) => {
    if (name !== "current.json") return;
    const next = await load(folder).catch((error) => console.error(`the model before stays in use: ${error.message}`));
    if (!next || next.card.sha256 === model.card.sha256) return;
    model = next;
    await classify(model, file).catch((error) => console.error(error.message));
  });
}

main(...process.argv.slice(2)).catch((error) => {
  console.error(`classify.js: ${error.message}`);
  process.exit(1);
});
