// What the strips show: of each box, rows of numbers from −1 to 1, a column per token.

const NUMBERS = 6;   // of a token's vector, in a strip
const MEANINGS = {
  numbers: {
    label: "Numbers", low: "below 0", high: "above 0", signed: true,
    text: (H) => `A column per token: ${Math.min(NUMBERS, H)} of its vector’s ${grouped(H)} numbers`,
  },
  change: {
    label: "Change", low: "unchanged", high: "wholly new", signed: false,
    text: () => "How much each box changes a token’s vector",
  },
  difference: {
    label: "Difference", low: "the same", high: "far apart", signed: false,
    text: () => "How far a token’s vector is from the frozen sentence’s; striped: not in that sentence",
  },
};

const outputOf = (n) => filled(NAMES.output(n), n, current());

// A tensor by a box's name; a dropout is its input, a sum is added here where it was not sent.
function findTensor(trace, id) {
  const tensor = trace.tensors.get(id) || trace.tensors.get(id.replace(/\/attention_output$/, ""));
  if (tensor) return tensor;
  if (id.endsWith("-Dropout")) return findTensor(trace, inputOf(id));
  if (id === "Embedding-Token-Segment") return addNamed(trace, "Embedding-Token", "Embedding-Segment");
  return null;
}

function addNamed(trace, ...names) {
  const [first, second] = names.map((name) => trace.tensors.get(name));
  if (!first || !second) return first || null;
  return { shape: first.shape, data: first.data.map((value, place) => value + second.data[place]) };
}

// The first layer that a layer reads.
function inputOf(id) {
  const layer = layerOf(id, current());
  return layer ? inputsOf(filled(layer.row.connected_to, layer.n, current()))[0]?.name : "";
}

// A token's vectors in a box: {width, at(token) -> Float32Array or null}; null: the box has none.
function vectorsOf(trace, id) {
  const tokens = trace.tokens.length;
  if (id === "Extract") return onlyFirst(vectorsOf(trace, outputOf(current().L)));
  if (id === "MLM-Gather") return onlyAt(vectorsOf(trace, outputOf(current().L)), askedOf(trace));
  const tensor = findTensor(trace, id);
  if (!tensor) return null;
  const rows = tensor.shape.length > 1 ? tensor.shape[0] : 1;
  const width = tensor.data.length / rows;
  const slice = (row) => tensor.data.subarray(row * width, (row + 1) * width);
  if (rows === tokens && tensor.shape.length > 1) return { width, at: slice };
  if (rows === 1) return { width, at: (token) => (token === 0 ? slice(0) : null) };
  const asked = askedOf(trace);
  return { width, at: (token) => (asked.includes(token) ? slice(asked.indexOf(token)) : null) };
}

const askedOf = (trace) => (trace.outputs.mlm || []).map(({ position }) => position);
const onlyFirst = (vectors) => onlyAt(vectors, [0]);
const onlyAt = (vectors, places) => vectors &&
  { width: vectors.width, at: (token) => (places.includes(token) ? vectors.at(token) : null) };

// The strip of a box: {rows, values: rows × tokens}, NaN where a token has nothing there; null: no strip.
function stripOf(box, trace, frozen) {
  if (/^Input-/.test(box)) return inputStrip(box, trace);
  if (NAMELESS.includes(box)) return answerStrip(box, trace);
  if (box === ENCODER || box.startsWith("blocks-")) return blocksStrip(box, trace, frozen);
  const id = idOf(box, current());
  if (id.endsWith("/heads") && !(state.colours === "difference" && frozen)) return headsStrip(id, trace);
  return vectorStrip(id.replace(/\/heads$/, "/context"), trace, frozen, NUMBERS);
}

function inputStrip(box, trace) {
  const asked = askedOf(trace);
  const value = {
    "Input-Token": (token) => (token.special ? 0.25 : 0.5),
    "Input-Segment": (token) => (token.segment ? -0.5 : 0.5),
  }[box] || ((token, place) => (asked.includes(place) ? 0.7 : 0));
  return { rows: 1, values: Float32Array.from(trace.tokens, value) };
}

// How likely the best answer is, where there is one.
function answerStrip(box, { outputs, tokens }) {
  const values = new Float32Array(tokens.length).fill(NaN);
  if (box === "NSP" && outputs.nsp) values[0] = outputs.nsp.isNext;
  if (box === "MLM") for (const { position, candidates } of outputs.mlm || []) values[position] = candidates[0].prob;
  return { rows: 1, values };
}

// A row a block, or some: what each of the blocks makes of the tokens, from bottom to top.
function blocksStrip(box, trace, frozen) {
  const [first, last] = blocksOf(box);
  const rows = state.colours === "numbers" ? numbersOfBlock(last - first + 1) : 1;
  const strips = [];
  for (let n = last; n >= first; n -= 1) strips.push(vectorStrip(outputOf(n), trace, frozen, rows, outputOf(n - 1)));
  if (strips.includes(null)) return null;
  const values = new Float32Array(strips.length * rows * trace.tokens.length);
  strips.forEach((strip, place) => values.set(strip.values, place * strip.values.length));
  return { rows: strips.length * rows, values };
}

function blocksOf(box) {
  if (box === "blocks-before") return [1, state.open - 1];
  return [box === ENCODER ? 1 : state.open + 1, current().L];
}

const numbersOfBlock = (blocks) => Math.max(1, Math.min(3, Math.floor(36 / blocks)));

function vectorStrip(id, trace, frozen, rows, input = null) {
  const vectors = vectorsOf(trace, id);
  if (!vectors) return null;
  if (state.colours === "numbers") return numbersStrip(vectors, trace, rows);
  const measure = state.colours === "difference" && frozen
    ? differenceFrom(vectors, id, frozen) : changeFrom(vectors, id, trace, input);
  const values = Float32Array.from(trace.tokens, (_, token) => measure(token));
  return { rows: 1, values };
}

// Some numbers of each vector, at even steps; the strongest colour is the 96th percentile's.
function numbersStrip(vectors, trace, rows) {
  const columns = trace.tokens.length;
  const lines = Math.min(rows, vectors.width);
  const values = new Float32Array(lines * columns).fill(NaN);
  for (let token = 0; token < columns; token += 1) {
    const vector = vectors.at(token);
    for (let row = 0; vector && row < lines; row += 1) {
      values[row * columns + token] = vector[Math.floor(((row + 0.5) * vectors.width) / lines)];
    }
  }
  const most = percentileOf(values, 0.96) || 1;
  return { rows: lines, values: values.map((value) => value / most) };
}

function percentileOf(values, part) {
  const sizes = values.filter((value) => Number.isFinite(value)).map(Math.abs).sort();
  return sizes.length ? sizes[Math.min(sizes.length - 1, Math.floor(part * sizes.length))] : 0;
}

// How much a box changes a token: the angle between its output and its input, as a part of 90°; of what
// is added to the residual stream, its length as a part of the stream's.
function changeFrom(vectors, id, trace, input) {
  const added = /-(MultiHeadSelfAttention|FeedForward)(\/attention_output)?$/.test(id);
  const before = vectorsOf(trace, input || inputOf(id.replace(/\/.*$/, "")));
  return (token) => {
    const [vector, old] = [vectors.at(token), before?.at(token)];
    if (!vector || !old || vector.length !== old.length) return NaN;
    return Math.min(1, added ? normOf(vector) / (normOf(old) || 1) : angleOf(vector, old) / 90);
  };
}

// How far a token is from the frozen sentence's: the length of the difference, as a part of the frozen
// vector's length, to 1; nothing of a token that is not in the frozen sentence.
function differenceFrom(vectors, id, frozen) {
  const others = vectorsOf(frozen.trace, id);
  return (token) => {
    const vector = vectors.at(token);
    if (!vector) return NaN;
    const other = frozen.matched[token] >= 0 && others?.at(frozen.matched[token]);
    if (!other || other.length !== vector.length) return NaN;
    return Math.min(1, distanceOf(vector, other) / (normOf(other) || 1));
  };
}

// A row a head: how much the chosen token looks at each of them; without one, how much all do.
function headsStrip(id, trace) {
  const probs = trace.tensors.get(`${id.split("/")[0]}/probs`);
  if (!probs) return null;
  const [heads, tokens] = probs.shape;
  const token = litToken();
  const from = token >= 0 ? [token] : Array.from({ length: tokens }, (_, place) => place);
  const values = new Float32Array(heads * tokens);
  for (let head = 0; head < heads; head += 1) {
    for (const query of from) {
      const start = (head * tokens + query) * tokens;
      for (let key = 0; key < tokens; key += 1) values[head * tokens + key] += probs.data[start + key] / from.length;
    }
  }
  return { rows: heads, values: values.map(Math.sqrt) };  // of small probabilities, more is seen
}

function dot(vector, other) {
  let sum = 0;
  for (let place = 0; place < vector.length; place += 1) sum += vector[place] * other[place];
  return sum;
}

function distanceOf(vector, other) {
  let sum = 0;
  for (let place = 0; place < vector.length; place += 1) sum += (vector[place] - other[place]) ** 2;
  return Math.sqrt(sum);
}

const normOf = (vector) => Math.sqrt(dot(vector, vector));
const cosineOf = (vector, other) => dot(vector, other) / (normOf(vector) * normOf(other) || 1);
const angleOf = (vector, other) => (Math.acos(Math.min(1, Math.max(-1, cosineOf(vector, other)))) * 180) / Math.PI;
