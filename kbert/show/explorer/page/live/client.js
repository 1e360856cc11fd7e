// The model of the page, for the page: `openModel(DATA.live)` gives {run(request), canType}; where
// the page computes also isFast: by WebAssembly.
//
// request = {text, pair: string|null, off: {heads: [[block, head], …], attention: [block, …],
//   residuals: [name of an Add layer, …], positions: boolean}, temperature: 1, positions: [token, …]}
//   Blocks and heads count from 1; `positions` names tokens, from 0, for which MLM candidates are
//   wanted beside those of the tokens that are [MASK]. All but `text` may be left out.
//
// Trace = {request, milliseconds, truncated: boolean, tokens: [{text, id, segment, special, start,
//   end}], tensors: Map(name -> {shape, data: Float32Array}), outputs}
//   `start` and `end` of a token are in the text or pair that it is of, in UTF-16 units.
//   outputs = {vector?, mlm?: [{position, candidates: [{token, prob}], blocks}], nsp?: {isNext},
//   classes?: [{label, prob}], tags?: [[{label, prob}]], answer?: {text, start, end, prob}}
//   Labels stand with the highest first; the tensors have their logits in the order of DATA.live.labels.
//
// Tensors have the names of kbert's layers, and of their parts: forward.js has them all.

async function openModel(live) {
  const { run, ...facts } = await openPlace(live);
  return { ...facts, run: async (request) => run(splitRequest(request)) };
}

// In an example, a tab is between the two texts of a pair.
function splitRequest(request) {
  const [text, ...rest] = request.text.split("\t");
  return !rest.length || request.pair ? request : { ...request, text, pair: rest.join(" ") };
}

async function openPlace(live) {
  const engine = makeEngine();
  if (live.place === "recorded") return { run: (request) => engine.findRecording(live, request), canType: false };
  if (live.place === "served") return { run: openServed(live, engine), canType: true };
  const bytes = await readWeights(live, engine);
  return { ...(await startWorker(live, bytes) ?? engine.openEngine(live, bytes)), canType: true };
}

// The weights' bytes; their text is let go of as it is decoded.
async function readWeights(live, { decodeBase64 }) {
  if (live.place === "beside") return joinParts(await loadParts(live), decodeBase64);
  const holder = $("weights");
  const text = holder.textContent;
  holder.remove();
  return decodeBase64(text);
}

// The file beside the page is a script: a page in a file may load nothing else.
async function loadParts({ file, digest }) {
  const script = h("script", { src: encodeURIComponent(file) });
  await new Promise((resolve, reject) => {
    script.onload = resolve;
    script.onerror = () => reject(new Error(`${file} must lie beside this page, and it does not.`));
    document.head.append(script);
  });
  script.remove();
  const { digest: other, parts } = self.kbertWeights;
  delete self.kbertWeights;
  if (other !== digest) throw new Error(`${file} has the weights of another page: write both again.`);
  return parts;
}

function joinParts(parts, decode) {
  const decoded = parts.map((_, place) => decode(parts.splice(place, 1, "")[0]));
  const bytes = new Uint8Array(decoded.reduce((total, part) => total + part.length, 0));
  let start = 0;
  for (const part of decoded) {
    bytes.set(part, start);
    start += part.length;
  }
  return bytes;
}

// A worker made of the engine's own source: a page in a file has no other address for it.
// Null where workers are refused.
async function startWorker(live, bytes) {
  const url = URL.createObjectURL(new Blob([`(${makeEngine})().serveRequests(self);`], { type: "text/javascript" }));
  let worker;
  try {
    worker = new Worker(url);
  } catch {
    return null;
  }
  const waiting = new Map();
  let last = 0;
  const post = (message, buffers) => new Promise((resolve, reject) => {
    last += 1;
    waiting.set(last, { resolve, reject });
    worker.postMessage({ number: last, ...message }, buffers);
  });
  worker.onmessage = ({ data: { number, problem, ...answer } }) => {
    const { resolve, reject } = waiting.get(number);
    waiting.delete(number);
    if (problem) reject(new Error(problem));
    else resolve(answer);
  };
  const started = new Promise((resolve) => {
    worker.onerror = (event) => {
      event.preventDefault();
      resolve(false);
    };
    post({}).then(() => resolve(true));
  });
  const isRunning = await started;
  URL.revokeObjectURL(url);
  if (!isRunning) return null;
  const { isFast } = await post({ live, bytes }, [bytes.buffer]);
  return { isFast, run: async (request) => (await post({ request }, [])).trace };
}
