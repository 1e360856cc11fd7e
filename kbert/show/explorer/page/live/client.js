// The model of the page, for the page: `openModel(DATA.live)` gives {run(request), canType}.
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
//
// Tensors have the names of kbert's layers, and of their parts: forward.js has them all.

async function openModel(live) {
  if (live.place === "recorded") return openRecordings(live);
  if (live.place === "served") return openServed(live);
  const bytes = await readWeights(live);
  const ask = await startWorker(live, bytes) ?? startHere(live, bytes);
  return { run: ask, canType: true };
}

// The weights in the page's own script tag, which is emptied: they are a third larger there.
async function readWeights() {
  const holder = $("weights");
  const text = holder.textContent.trim();
  holder.remove();
  return makeEngine().decodeBase64(text);
}

// A worker made of the engine's own source: a page in a file has no other address for it.
// Null where workers are refused.
async function startWorker(live, bytes) {
  const source = `(${makeEngine})().serveRequests(self);`;
  const url = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
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
  worker.onmessage = ({ data: { number, trace, problem } }) => {
    const { resolve, reject } = waiting.get(number);
    waiting.delete(number);
    if (problem) reject(new Error(problem));
    else resolve(trace);
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
  await post({ live, bytes }, [bytes.buffer]);
  return (request) => post({ request }, []);
}

function startHere(live, bytes) {
  const engine = makeEngine().openEngine(live, bytes);
  return async (request) => engine.run(request);
}
