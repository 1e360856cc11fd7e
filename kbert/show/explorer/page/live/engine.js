// The model as a whole: text in, a Trace out. Nothing here needs a page: it also runs in a worker.

function openEngine(live, bytes) {
  const products = makeProducts();
  const bert = makeBert(live.config, makeWeights(live.weights, bytes), products);
  const model = { live, bert, tokenizer: makeTokenizer(live.tokenizer), heads: prepareHeads(bert, live) };
  return { isFast: products.isFast, run: (request) => computeTrace(model, request) };
}

function computeTrace(model, asked) {
  const start = performance.now();
  const nothingOff = { heads: [], attention: [], residuals: [], positions: false };
  const request = { pair: null, temperature: 1, positions: [], ...asked, off: { ...nothingOff, ...asked.off } };
  const { config } = model.live;
  const { tokens, truncated } = tokenize(model, request);
  checkTokens(config, tokens);
  const tensors = computeTensors(model.bert, tokens, request);
  if (!tensors.get(`${nameFeedForward(config.L)}-Norm`).data.every(Number.isFinite)) {
    throw new Error("the model computes NaN or infinity: kbert inspect shows which of its weights are not finite");
  }
  const outputs = computeOutputs(model, tokens, tensors, request);
  return { request, milliseconds: performance.now() - start, tokens, truncated, tensors, outputs };
}

// A sentence model's prompt comes before the text; a token's place is that in the text alone.
function tokenize({ live: { pooling }, tokenizer }, { text, pair }) {
  const { prompt = "" } = pooling ?? {};
  const { tokens, truncated } = tokenizer.encode(prompt + text, pair);
  const place = (offset) => Math.max(0, offset - prompt.length);
  const moved = tokens.map((token) => (token.segment ? token : { ...token, start: place(token.start), end: place(token.end) }));
  return { tokens: moved, truncated };
}

// What kbert refuses too, as tracing.py says it.
function checkTokens({ T, G, padId }, tokens) {
  if (tokens.some(({ segment }) => segment >= G)) {
    throw new Error(`a sentence with a second text needs a model with two segments, got type_vocab_size = ${G}`);
  }
  const largest = Math.max(...tokens.map(({ id }) => id));
  if (largest >= T) {
    throw new Error(`the tokenizer's ids must be below vocab_size = ${T}, got ${largest}: the vocabulary is another model's`);
  }
  const padding = tokens.find(({ id }) => id === padId);
  if (padding) throw new Error(`a text must not hold ${padding.text}, the padding token, because attention leaves it out`);
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
