// What the strips show: of each box, rows of numbers from −1 to 1, a column per token.

const NUMBERS = 6;   // of a token's vector, in a strip

const outputOf = (n) => filled(NAMES.output(n), n, current());

// A tensor by a box's name; a dropout is its input, a sum is added here where it was not sent.
function findTensor(trace, id) {
  const tensor = trace.tensors.get(id) || trace.tensors.get(id.replace(/\/attention_output$/, ""));
  if (tensor) return tensor;
  if (id.endsWith("-Dropout")) return findTensor(trace, inputOf(id));
  if (id !== "Embedding-Token-Segment") return null;
  const [first, second] = ["Embedding-Token", "Embedding-Segment"]
    .map((name) => trace.tensors.get(name));
  if (!first || !second) return first || null;
  return { shape: first.shape, data: first.data.map((value, n) => value + second.data[n]) };
}

function inputOf(id) {
  const { row, n } = layerOf(id, current());
  return inputsOf(filled(row.connected_to, n, current()))[0]?.name || "";
}

// A token's vectors in a box: {width, at(token) -> Float32Array or null}; null: the box has none.
function vectorsOf(trace, id) {
  if (id === "Extract") return onlyAt(vectorsOf(trace, outputOf(current().L)), [0]);
  if (id === "MLM-Gather") return onlyAt(vectorsOf(trace, outputOf(current().L)), askedOf(trace));
  const tensor = findTensor(trace, id);
  if (!tensor) return null;
  const rows = tensor.shape.length > 1 ? tensor.shape[0] : 1;
  const width = tensor.data.length / rows;
  const slice = (row) => tensor.data.subarray(row * width, (row + 1) * width);
  if (rows === trace.tokens.length && tensor.shape.length > 1) return { width, at: slice };
  const tokens = rows === 1 ? [0] : askedOf(trace);
  return { width, at: (token) => (tokens.includes(token) ? slice(tokens.indexOf(token)) : null) };
}

const askedOf = (trace) => (trace.outputs.mlm || []).map(({ position }) => position);
const onlyAt = (vectors, places) => vectors &&
  { width: vectors.width, at: (token) => (places.includes(token) ? vectors.at(token) : null) };

// The strip of a box: {rows, values: rows × tokens}, NaN where a token has nothing; null: none.
function stripOf(box, trace, frozen) {
  if (/^Input-/.test(box)) return inputStrip(box, trace);
  if (NAMELESS.includes(box)) return answerStrip(box, trace);
  if (blockRange(box)) return blocksStrip(blockRange(box), trace, frozen);
  const id = idOf(box, current());
  if (!id.endsWith("/heads")) return vectorStrip(id, trace, frozen, NUMBERS);
  return frozen ? headsDifference(id, trace, frozen) : headsStrip(id, trace);
}

function inputStrip(box, trace) {
  const values = {
    "Input-Token": (token) => (isMarker(token) ? 0.25 : 0.5),
    "Input-Segment": (token) => (token.segment ? -0.5 : 0.5),
  }[box] || ((_, place) => (askedOf(trace).includes(place) ? 0.7 : 0));
  return { rows: 1, values: Float32Array.from(trace.tokens, values) };
}

function answerStrip(box, { outputs, tokens }) {
  const values = new Float32Array(tokens.length).fill(NaN);
  if (box === "NSP" && outputs.nsp) values[0] = outputs.nsp.isNext;
  if (box === "MLM") {
    for (const { position, candidates } of outputs.mlm || []) values[position] = candidates[0].prob;
  }
  return { rows: 1, values };
}

function blocksStrip([first, last], trace, frozen) {
  const rows = Math.max(1, Math.min(3, Math.floor(36 / (last - first + 1))));
  const strips = [];
  for (let n = last; n >= first; n -= 1) strips.push(vectorStrip(outputOf(n), trace, frozen, rows));
  if (strips.includes(null)) return null;
  const size = strips[0].values.length;
  const values = new Float32Array(strips.length * size);
  strips.forEach((strip, place) => values.set(strip.values, place * size));
  return { rows: strips.length * strips[0].rows, values };
}

function vectorStrip(id, trace, frozen, rows) {
  const vectors = vectorsOf(trace, id);
  if (!vectors) return null;
  return frozen ? differenceStrip(vectors, id, trace, frozen) : numbersStrip(vectors, trace, rows);
}

// Some numbers of each vector, at even steps; the strongest colour is the 96th percentile's.
function numbersStrip(vectors, trace, most) {
  const columns = trace.tokens.length;
  const rows = Math.min(most, vectors.width);
  const values = new Float32Array(rows * columns).fill(NaN);
  for (let token = 0; token < columns; token += 1) {
    const vector = vectors.at(token);
    for (let row = 0; vector && row < rows; row += 1) {
      values[row * columns + token] = vector[Math.floor(((row + 0.5) * vectors.width) / rows)];
    }
  }
  const strongest = quantile([values], 0.96);
  return { rows, values: values.map((value) => value / strongest) };
}

// How far a token is from the frozen sentence's: the difference's length, by the frozen vector's.
function differenceStrip(vectors, id, trace, frozen) {
  const others = vectorsOf(frozen.trace, id);
  const values = Float32Array.from(trace.tokens, (_, token) => {
    const vector = vectors.at(token);
    const other = frozen.matched[token] >= 0 && others?.at(frozen.matched[token]);
    return vector && other ? distance(vector, other) : NaN;
  });
  return { rows: 1, values };
}

function distance(vector, other) {
  if (other.length !== vector.length) return NaN;
  return lengthOf(vector.map((value, n) => value - other[n])) / (lengthOf(other) || 1);
}

// The same of what each head collected, a row a head: its slice of the context.
function headsDifference(id, trace, frozen) {
  const [vectors, others] = [trace, frozen.trace].map((one) => vectorsOf(one, id.replace(/heads$/, "context")));
  if (!vectors || !others) return null;
  const rows = current().A;
  const size = vectors.width / rows;
  const columns = trace.tokens.length;
  const values = new Float32Array(rows * columns).fill(NaN);
  for (let token = 0; token < columns; token += 1) {
    const matched = frozen.matched[token];
    for (let head = 0; matched >= 0 && head < rows; head += 1) {
      const [vector, other] = [vectors.at(token), others.at(matched)]
        .map((whole) => whole.subarray(head * size, (head + 1) * size));
      values[head * columns + token] = distance(vector, other);
    }
  }
  return { rows, values };
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
    const map = headMap(probs, head);
    for (const query of from) {
      for (let key = 0; key < tokens; key += 1) {
        values[head * tokens + key] += map[query * tokens + key] / from.length;
      }
    }
  }
  return { rows: heads, values: values.map(Math.sqrt) };  // of small probabilities, more is seen
}
