// The products of products.js in plain JavaScript, some ten times slower.

function makePlainProducts() {
  const keep = (matrix) => matrix;
  return { isFast: false, prepare: keep, lend: keep, multiply: multiplyPlainly };
}

// Four rows share a read of the weights.
function multiplyPlainly(x, rows, { data, start, outputs, inputs, outputStride, inputStride, bias }, y) {
  for (let row = 0; row < rows; row += 4) {
    const four = [0, 1, 2, 3].map((next) => Math.min(row + next, rows - 1));
    const [a, b, c, d] = four.map((one) => x.start + one * x.stride);
    for (let output = 0; output < outputs; output += 1) {
      const sums = [0, 0, 0, 0].fill(bias ? bias[output] : 0);
      let [sumA, sumB, sumC, sumD] = sums;
      for (let input = 0, place = start + output * outputStride; input < inputs; input += 1, place += inputStride) {
        const weight = data[place];
        sumA += weight * x.data[a + input];
        sumB += weight * x.data[b + input];
        sumC += weight * x.data[c + input];
        sumD += weight * x.data[d + input];
      }
      [sumA, sumB, sumC, sumD].forEach((sum, next) => {
        y.data[y.start + four[next] * y.stride + output] = sum;
      });
    }
  }
}
