// The page computes: with weights in the page itself, in a worker where there may be one.

PLACES.inside = async (live) => {
  const engine = makeEngine();
  const holder = $("weights");
  const text = holder.textContent;
  holder.remove();  // the text is let go of as it is decoded
  return startEngine(live, engine, engine.decodeBase64(text));
};

async function startEngine(live, engine, bytes) {
  return { ...(await startWorker(live, bytes) ?? engine.openEngine(live, bytes)), canType: true };
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
