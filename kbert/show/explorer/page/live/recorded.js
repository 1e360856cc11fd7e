// Recordings: traces that kbert computed, for a checkpoint whose weights are not in the page.
//
// A recording keeps the tensors from which the others follow (recording.py says which); here these
// are computed. A tensor whose parts were left out of the page is absent.

function openRecordings(live) {
  const run = async (request) => {
    const recording = findRecording(live.recordings, request);
    if (!recording) throw new Error("this page has no recording of that text");
    return readTrace(recording, decodeNumbers(recording.data, live.precision), live.config);
  };
  return { run, canType: false };
}

// The recording of a text and its pair, else one of the text; nothing is switched off in it.
function findRecording(recordings, { text, pair }) {
  const ofText = recordings.filter(({ request }) => request.text === text);
  return ofText.find(({ request }) => request.pair === (pair ?? null)) || ofText[0];
}

// A base64 text of little-endian numbers as a Float32Array.
function decodeNumbers(text, precision) {
  const bytes = makeEngine().decodeBase64(text);
  if (precision === "float32") return new Float32Array(bytes.buffer);
  return Float32Array.from(new Uint16Array(bytes.buffer), halfToNumber);
}

// The value of a number in half precision: sign, 5 bits of exponent, 10 of fraction.
function halfToNumber(half) {
  const sign = half & 0x8000 ? -1 : 1;
  const exponent = (half >> 10) & 0x1f;
  const fraction = half & 0x3ff;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// A trace from its header, without numbers, and all numbers of its tensors in order.
function readTrace(header, numbers, config) {
  const tensors = new Map();
  let start = 0;
  for (const [name, shape] of header.tensors) {
    const size = shape.reduce((product, length) => product * length, 1);
    tensors.set(name, { shape, data: numbers.subarray(start, start + size) });
    start += size;
  }
  const outputs = { ...header.outputs };
  if (outputs.vector) outputs.vector = Float32Array.from(outputs.vector);
  const { request, milliseconds, tokens, truncated } = header;
  completeTensors(tensors, config, request);
  return { request, milliseconds, tokens, truncated, tensors, outputs };
}

// Adds the tensors that follow from those that are kept.
function completeTensors(tensors, config, request) {
  let sum = tensors.get("Embedding-Token");
  if (tensors.has("Embedding-Segment")) {
    sum = addTensors(sum, tensors.get("Embedding-Segment"));
    tensors.set("Embedding-Token-Segment", sum);
  }
  tensors.set("Embedding-Position", addTensors(sum, tensors.get("Embedding-Position/position")));
  let input = tensors.get("Embedding-Norm");
  for (let block = 1; block <= config.L; block++) {
    const attention = `Encoder-${block}-MultiHeadSelfAttention`;
    const feedForward = `Encoder-${block}-FeedForward`;
    completeAttention(tensors, attention, listHeadsOff(request, block), request.temperature);
    completeActivation(tensors, feedForward, config.activation);
    for (const layer of [attention, feedForward]) {
      completeSum(tensors, layer, input, request.off.residuals.includes(`${layer}-Add`));
      input = tensors.get(`${layer}-Norm`) || input;
    }
  }
}

function listHeadsOff(request, block) {
  return new Set(request.off.heads.filter(([of]) => of === block).map(([, head]) => head - 1));
}

function addTensors(a, b) {
  return { shape: a.shape, data: a.data.map((number, index) => number + b.data[index]) };
}

function completeSum(tensors, layer, input, isOff) {
  const output = tensors.get(layer);
  if (output) tensors.set(`${layer}-Add`, isOff ? output : addTensors(input, output));
}

// Scores, probs and context of query, key and value, which are [tokens, heads, size of a head].
function completeAttention(tensors, layer, off, temperature) {
  const query = tensors.get(`${layer}/query`);
  const key = tensors.get(`${layer}/key`);
  const value = tensors.get(`${layer}/value`);
  if (!query || !key) return;
  const scores = scoresOf(query, key);
  const probs = { shape: scores.shape, data: softmaxRows(scores.data, scores.shape[2], temperature) };
  tensors.set(`${layer}/scores`, scores);
  tensors.set(`${layer}/probs`, probs);
  if (value) tensors.set(`${layer}/context`, contextOf(probs, value, off));
}

function scoresOf(query, key) {
  const [tokens, heads, size] = query.shape;
  const data = new Float32Array(heads * tokens * tokens);
  const scale = Math.sqrt(size);
  let place = 0;
  for (let head = 0; head < heads; head++) {
    for (let from = 0; from < tokens; from++) {
      for (let to = 0; to < tokens; to++) {
        let product = 0;
        const [a, b] = [(from * heads + head) * size, (to * heads + head) * size];
        for (let n = 0; n < size; n++) product += query.data[a + n] * key.data[b + n];
        data[place++] = product / scale;
      }
    }
  }
  return { shape: [heads, tokens, tokens], data };
}

function softmaxRows(scores, length, temperature) {
  const probs = new Float32Array(scores.length);
  for (let start = 0; start < scores.length; start += length) {
    const row = scores.subarray(start, start + length);
    const largest = Math.max(...row);
    let total = 0;
    for (let n = 0; n < length; n++) {
      probs[start + n] = Math.exp((row[n] - largest) / temperature);
      total += probs[start + n];
    }
    for (let n = 0; n < length; n++) probs[start + n] /= total;
  }
  return probs;
}

function contextOf(probs, value, off) {
  const [tokens, heads, size] = value.shape;
  const data = new Float32Array(tokens * heads * size);
  for (let head = 0; head < heads; head++) {
    if (off.has(head)) continue;
    for (let from = 0; from < tokens; from++) {
      const place = (from * heads + head) * size;
      for (let to = 0; to < tokens; to++) {
        const prob = probs.data[(head * tokens + from) * tokens + to];
        const start = (to * heads + head) * size;
        for (let n = 0; n < size; n++) data[place + n] += prob * value.data[start + n];
      }
    }
  }
  return { shape: value.shape, data };
}

function completeActivation(tensors, layer, activation) {
  const inner = tensors.get(`${layer}/intermediate`);
  const name = `${layer}/activation`;
  if (!inner || tensors.has(name)) return;
  tensors.set(name, { shape: inner.shape, data: inner.data.map(makeEngine().ACTIVATIONS[activation]) });
}
