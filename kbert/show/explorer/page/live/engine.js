// The model as a whole: text in, a Trace out. Nothing here needs a page: it also runs in a worker.

function openEngine(live, bytes) {
  const products = makeProducts();
  const weights = makeWeights(live.weights, bytes);
  const bert = makeBert(live.config, weights, products);
  const model = { live, bert, tokenizer: makeTokenizer(live.tokenizer), heads: prepareHeads(bert, live) };
  return { isFast: products.isFast, run: (request) => computeTrace(model, request) };
}

function computeTrace(model, request) {
  const start = performance.now();
  const { tokens, truncated } = tokenize(model, request);
  const tensors = computeTensors(model.bert, tokens, request);
  const outputs = computeOutputs(model, tokens, tensors, request);
  return { request, milliseconds: performance.now() - start, tokens, truncated, tensors, outputs };
}

// A sentence model's prompt comes before the text; a token's place is that in the text alone.
function tokenize({ live: { pooling }, tokenizer }, { text, pair }) {
  const { prompt = "", lowercase = false } = pooling || {};
  const whole = prompt + text;
  const { tokens, truncated } = tokenizer.encode(lowercase ? whole.toLowerCase() : whole, pair);
  if (!prompt) return { tokens, truncated };
  const place = (offset) => Math.max(0, offset - prompt.length);
  const moved = tokens.map((token) => (token.segment ? token : { ...token, start: place(token.start), end: place(token.end) }));
  return { tokens: moved, truncated };
}

// In a worker: the first message opens the model, each other one is a request.
function serveRequests(scope) {
  let engine;
  scope.onmessage = ({ data: { number, live, bytes, request } }) => {
    try {
      if (live) engine = openEngine(live, bytes);
      const trace = request ? engine.run(request) : null;
      const buffers = trace ? [...trace.tensors.values()].map(({ data }) => data.buffer) : [];
      scope.postMessage({ number, trace, isFast: engine?.isFast }, [...new Set(buffers)]);
    } catch (error) {
      scope.postMessage({ number, problem: error.message });
    }
  };
}
