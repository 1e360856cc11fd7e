// Vectors of a trace, their statistics, and numbers as text.

// The values of one token in a tensor [S, …]; null where the trace lacks it.
function vectorOf(trace, name, token) {
  const tensor = trace.tensors.get(name);
  if (!tensor) return null;
  const width = tensor.data.length / tensor.shape[0];
  return tensor.data.subarray(token * width, (token + 1) * width);
}

// The values of one token in one head, in a tensor [S, A, H/A].
function headVector(tensor, token, head) {
  const [, heads, width] = tensor.shape;
  const start = (token * heads + head) * width;
  return tensor.data.subarray(start, start + width);
}

// One head's map in a tensor [A, S, S].
function headMap(tensor, head) {
  const [, from, to] = tensor.shape;
  return tensor.data.subarray(head * from * to, (head + 1) * from * to);
}

function dotProduct(a, b) {
  let total = 0;
  for (let n = 0; n < a.length; n += 1) total += a[n] * b[n];
  return total;
}

const lengthOf = (vector) => Math.sqrt(dotProduct(vector, vector));

// The angle between two vectors, in degrees.
function angleBetween(a, b) {
  const cosine = dotProduct(a, b) / (lengthOf(a) * lengthOf(b) || 1);
  return (Math.acos(Math.min(1, Math.max(-1, cosine))) * 180) / Math.PI;
}

function meanAndDeviation(vector) {
  let mean = 0;
  for (const value of vector) mean += value;
  mean /= vector.length;
  let variance = 0;
  for (const value of vector) variance += (value - mean) ** 2;
  return { mean, variance: variance / vector.length, deviation: Math.sqrt(variance / vector.length) };
}

const addVectors = (a, b) => a.map((value, n) => value + b[n]);

function largestIndex(vector) {
  let best = 0;
  for (let n = 1; n < vector.length; n += 1) if (vector[n] > vector[best]) best = n;
  return best;
}

// The indices of the `count` largest values, the largest first.
function largestIndices(vector, count) {
  const order = Array.from(vector, (_, n) => n).sort((a, b) => vector[b] - vector[a]);
  return order.slice(0, count);
}

// The absolute value that a share of the values does not exceed: what saturates a colour.
function quantile(vectors, share) {
  const values = Float32Array.from(vectors.flatMap((vector) => Array.from(vector, Math.abs))).sort();
  return values[Math.min(values.length - 1, Math.floor(share * values.length))] || 1e-9;
}

// A number with three digits after the point, fewer where it is large.
function decimal(value, digits) {
  const size = Math.abs(value);
  const places = digits ?? (size < 9.9995 ? 3 : size < 99.995 ? 2 : 1);
  const text = size.toFixed(places);
  const isZero = Number(text) === 0;
  if (isZero && size >= 1e-12 && digits === undefined) return tiny(value);
  return `${value < 0 && !isZero ? "−" : ""}${text}`;
}

function tiny(value) {
  const [digits, power] = Math.abs(value).toExponential(1).split("e-");
  const raised = Array.from(power, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("");
  return `${value < 0 ? "−" : ""}${digits === "1.0" ? "" : `${digits}·`}10⁻${raised}`;
}

// As a term of a sum: a negative number in brackets.
const bracketed = (text) => (text.startsWith("−") ? `(${text})` : text);

// The fewest digits with which the rounded terms add up to the rounded sum.
function digitsThatAddUp(terms, total) {
  const round = (value, digits) => Math.round(value * 10 ** digits);
  for (let digits = 3; digits < 7; digits += 1) {
    const added = terms.reduce((all, term) => all + round(term, digits), 0);
    if (added === round(total, digits)) return digits;
  }
  return 3;
}

// Vectors by name as a table with a row per dimension.
const vectorTable = (vectors) => () => ({
  columns: ["dimension", ...Object.keys(vectors)],
  rows: Array.from(Object.values(vectors)[0], (_, n) => [String(n + 1), ...Object.values(vectors).map((vector) => decimal(vector[n]))]),
});

// [CLS] and [SEP]: what the tokenizer adds; a [MASK] that was typed is special too, and a word here.
const isAdded = ({ special, start, end }) => special && start === end;

const quoted = (token) => `“${token.text}”`;

const plural = (count, noun) => `${grouped(count)} ${noun}${count === 1 ? "" : "s"}`;
