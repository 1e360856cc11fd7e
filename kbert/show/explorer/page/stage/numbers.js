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
const cosineOf = (a, b) => dotProduct(a, b) / (lengthOf(a) * lengthOf(b) || 1);

function meanAndDeviation(vector) {
  let mean = 0;
  for (const value of vector) mean += value;
  mean /= vector.length;
  let variance = 0;
  for (const value of vector) variance += (value - mean) ** 2;
  variance /= vector.length;
  return { mean, variance, deviation: Math.sqrt(variance) };
}

function largestIndex(vector) {
  let best = 0;
  for (let n = 1; n < vector.length; n += 1) if (vector[n] > vector[best]) best = n;
  return best;
}

function largestIndices(vector, count) {
  const order = Array.from(vector, (_, n) => n).sort((a, b) => vector[b] - vector[a]);
  return order.slice(0, count);
}

// The absolute value that a share of the numbers does not exceed: it gets the strongest colour.
function quantile(vectors, share) {
  const sizes = Float32Array.from(vectors.flatMap((vector) => Array.from(vector, Math.abs)));
  const sorted = sizes.filter(Number.isFinite).sort();
  return sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] || 1e-9;
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

const vectorTable = (vectors) => () => ({
  columns: ["dimension", ...Object.keys(vectors)],
  rows: Array.from(Object.values(vectors)[0], (_, n) =>
    [String(n + 1), ...Object.values(vectors).map((vector) => decimal(vector[n]))]),
});

const quoted = (token) => `“${token.text}”`;
