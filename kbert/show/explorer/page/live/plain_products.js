// The products of products.js in plain JavaScript, some ten times slower.

function makePlainProducts() {
  return { isFast: false, prepare: (matrix) => matrix, multiply: multiplyPlainly, score: scorePlainly, mix: mixPlainly };
}

// x [rows, inputs] · kernelᵀ + bias; the kernel is [outputs, inputs]. Four rows share a read of it.
function multiplyPlainly(x, rows, { kernel, bias, inputs, outputs }) {
  const product = new Float32Array(rows * outputs);
  for (let row = 0; row < rows; row += 4) {
    const [a, b, c, d] = [0, 1, 2, 3].map((next) => Math.min(row + next, rows - 1));
    for (let output = 0; output < outputs; output += 1) {
      const start = bias ? bias[output] : 0;
      let [sumA, sumB, sumC, sumD] = [start, start, start, start];
      const weights = output * inputs;
      for (let input = 0; input < inputs; input += 1) {
        const weight = kernel[weights + input];
        sumA += weight * x[a * inputs + input];
        sumB += weight * x[b * inputs + input];
        sumC += weight * x[c * inputs + input];
        sumD += weight * x[d * inputs + input];
      }
      product[a * outputs + output] = sumA;
      product[b * outputs + output] = sumB;
      product[c * outputs + output] = sumC;
      product[d * outputs + output] = sumD;
    }
  }
  return product;
}

// query · keyᵀ of each head, [A, S, S]; both are [S, A, D].
function scorePlainly(query, key, length, heads, size) {
  const scores = new Float32Array(heads * length * length);
  const width = heads * size;
  for (let head = 0, place = 0; head < heads; head += 1) {
    for (let from = 0; from < length; from += 1) {
      for (let to = 0; to < length; to += 1, place += 1) {
        const q = from * width + head * size;
        const k = to * width + head * size;
        let sum = 0;
        for (let i = 0; i < size; i += 1) sum += query[q + i] * key[k + i];
        scores[place] = sum;
      }
    }
  }
  return scores;
}

// probs [A, S, S] · value [S, A, D] of each head: the context [S, A, D].
function mixPlainly(probs, value, length, heads, size) {
  const context = new Float32Array(length * heads * size);
  const width = heads * size;
  for (let head = 0, place = 0; head < heads; head += 1) {
    for (let from = 0; from < length; from += 1) {
      for (let to = 0; to < length; to += 1, place += 1) {
        const prob = probs[place];
        const c = from * width + head * size;
        const v = to * width + head * size;
        for (let i = 0; i < size; i += 1) context[c + i] += prob * value[v + i];
      }
    }
  }
  return context;
}
