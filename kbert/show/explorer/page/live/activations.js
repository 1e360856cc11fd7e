// The activations that a configuration can name; each takes and returns a number.

// The error function within a few units of float32's last place, as XLA computes it: a fraction of
// two polynomials of x², without an exponential.
function erf(x) {
  const z = x > 3.8325 ? 3.8325 : x < -3.8325 ? -3.8325 : x;
  const w = z * z;
  const above = (((0.00022905065861350646 * w + 0.0034082910107109506) * w + 0.050955695062380861) * w
    + 0.18520832239976145) * w + 1.128379143519084;
  const below = (((((-1.1791602954361697e-7 * w + 0.000023547966471313185) * w + 0.0010179625278914885) * w
    + 0.014070470171167667) * w + 0.11098505178285362) * w + 0.49746925110067538) * w + 1;
  return z * above / below;
}

const sigmoid = (x) => 1 / (1 + Math.exp(-x));
const softplus = (x) => (x > 30 ? x : Math.log1p(Math.exp(x)));
const clip = (x, low, high) => Math.min(Math.max(x, low), high);
const gelu = (x) => 0.5 * x * (1 + erf(x * Math.SQRT1_2));

const ACTIVATIONS = {
  gelu,
  gelu_tanh: (x) => 0.5 * x * (1 + Math.tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))),
  gelu_10: (x) => clip(gelu(x), -10, 10),
  quick_gelu: (x) => x * sigmoid(1.702 * x),
  relu: (x) => Math.max(x, 0),
  relu_squared: (x) => Math.max(x, 0) ** 2,
  relu6: (x) => clip(x, 0, 6),
  leaky_relu_01: (x) => (x < 0 ? 0.01 * x : x),
  silu: (x) => x * sigmoid(x),
  hard_silu: (x) => x * clip(x / 6 + 0.5, 0, 1),
  mish: (x) => x * Math.tanh(softplus(x)),
  laplace: (x) => 0.5 * (1 + erf((x - 0.707107) / (0.282095 * Math.SQRT2))),
  sqrt_softplus: (x) => Math.sqrt(softplus(x)),
  sigmoid,
  tanh: Math.tanh,
  linear: (x) => x,
  // of sentence-transformers' dense layers
  elu: (x) => (x < 0 ? Math.expm1(x) : x),
  selu: (x) => 1.0507009873554805 * (x < 0 ? 1.6732632423543772 * Math.expm1(x) : x),
  softplus,
};

function activate(values, name) {
  const activation = ACTIVATIONS[name];
  const activated = new Float32Array(values.length);
  for (let place = 0; place < values.length; place += 1) activated[place] = activation(values[place]);
  return activated;
}

// Of each row of `width` numbers.
function softmax(values, width, temperature = 1) {
  const probs = new Float32Array(values.length);
  for (let row = 0; row < values.length; row += width) {
    let largest = -Infinity;
    for (let place = row; place < row + width; place += 1) largest = Math.max(largest, values[place]);
    let sum = 0;
    for (let place = row; place < row + width; place += 1) {
      probs[place] = Math.exp((values[place] - largest) / temperature);
      sum += probs[place];
    }
    for (let place = row; place < row + width; place += 1) probs[place] /= sum;
  }
  return probs;
}
