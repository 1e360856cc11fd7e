// Recordings: traces that kbert computed, for a checkpoint whose weights are not in the page.
//
// A recording keeps the tensors from which the others follow (recording.py says which); here these
// are computed. A tensor whose parts were left out of the page is absent.

// The recording of a text and its pair, else one of the text; nothing is switched off in it.
function findRecording({ recordings, precision, config }, { text, pair }) {
  const ofText = recordings.filter(({ request }) => request.text === text);
  const recording = ofText.find(({ request }) => request.pair === (pair ?? null)) || ofText[0];
  if (!recording) throw new Error("this page has no recording of that text");
  const trace = readTrace(recording, decodeNumbers(recording.data, precision), config);
  if (recording.attention) addWeights(trace.tensors, recording.attention, trace.tokens.length, config);
  return trace;
}

// A base64 text of little-endian numbers.
function decodeNumbers(text, precision) {
  const { buffer, length } = decodeBase64(text);
  return precision === "float32" ? new Float32Array(buffer) : readFloat16(buffer, 0, length / 2);
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
  const products = makePlainProducts();
  const sum = (a, b) => ({ shape: a.shape, data: add(a.data, b.data) });
  let input = tensors.get("Embedding-Token");
  if (tensors.has("Embedding-Segment")) {
    input = sum(input, tensors.get("Embedding-Segment"));
    tensors.set("Embedding-Token-Segment", input);
  }
  if (input) tensors.set("Embedding-Position", sum(input, tensors.get("Embedding-Position/position")));
  input = tensors.get("Embedding-Norm");
  for (let block = 1; block <= config.L; block += 1) {
    const feedForward = nameFeedForward(block);
    attendHeads(products, tensors, block, request);
    const wide = tensors.get(`${feedForward}/intermediate`);
    if (wide) tensors.set(`${feedForward}/activation`, { shape: wide.shape, data: activate(wide.data, config.activation) });
    for (const layer of [nameAttention(block), feedForward]) {
      const output = tensors.get(layer);
      const isOff = request.off.residuals.includes(`${layer}-Add`);
      if (output) tensors.set(`${layer}-Add`, isOff ? output : sum(input, output));
      input = tensors.get(`${layer}-Norm`) ?? input;
    }
  }
}
