// Products of matrices, by WebAssembly; in plain JavaScript where a page may not use it.
//
//   prepare(matrix)                    the form of a matrix that `multiply` takes, which it keeps
//   lend(matrix)                       such a form for the next product alone
//   multiply(x, rows, prepared, y)     y = x · Wᵀ + bias
//
// x and y are {data, start, stride}: rows in a Float32Array, from one place on. A matrix is {data, start,
// outputs, inputs, outputStride, inputStride, bias}: where the weights of an output and an input lie.

function makeProducts() {
  try {
    return makeFastProducts(decodeBase64(PRODUCTS_WASM));
  } catch {
    return makePlainProducts();  // a policy without 'wasm-unsafe-eval', or an old browser
  }
}

const PANEL = 8;          // outputs that are multiplied side by side, see products.wat
const ROWS = 4;           // rows that are multiplied at a time
const PAGE = 65536;       // bytes of a page of memory
const FLOAT = 4;          // bytes

// Matrices stay in the module's memory; behind them lies room for a product's operands.
function makeFastProducts(code) {
  const memory = new WebAssembly.Memory({ initial: 1 });
  const { multiply } = new WebAssembly.Instance(new WebAssembly.Module(code), { page: { memory } }).exports;
  let end = 0;
  const allocate = (numbers) => {
    const start = end;
    end = roundUp(start + FLOAT * numbers, 16);
    const missing = Math.ceil(end / PAGE) - memory.buffer.byteLength / PAGE;
    if (missing > 0) memory.grow(missing);
    return start;
  };
  const places = new Map();
  // A place for that many numbers, kept for the next product.
  const reserve = (name, numbers) => {
    if (!places.has(name) || places.get(name).numbers < numbers) {
      places.set(name, { numbers: 2 * numbers, start: allocate(2 * numbers) });
    }
    return places.get(name).start;
  };
  const view = (start, numbers) => new Float32Array(memory.buffer, start, numbers);

  // A matrix in panels, [panels][inputs][8]; missing outputs are zeros.
  const fill = (matrix, place) => {
    const { outputs, inputs } = matrix;
    const panels = Math.ceil(outputs / PANEL);
    const weights = place("weights", panels * inputs * PANEL);
    const bias = place("bias", panels * PANEL);
    fillPanels(view(weights, panels * inputs * PANEL), matrix);
    view(bias, panels * PANEL).fill(0);
    if (matrix.bias) view(bias, outputs).set(matrix.bias);
    return { weights, bias, outputs, inputs, panels };
  };

  return {
    isFast: true,
    prepare: (matrix) => fill(matrix, (_, numbers) => allocate(numbers)),
    lend: (matrix) => fill(matrix, reserve),
    multiply: (x, rows, { weights, bias, outputs, inputs, panels }, y) => {
      const width = panels * PANEL;
      const height = roundUp(rows, ROWS);
      const from = reserve("x", height * inputs);
      const to = reserve("y", height * width);
      copyRows(rows, inputs, x, { data: view(from, rows * inputs), start: 0, stride: inputs });
      multiply(from, FLOAT * inputs, weights, bias, to, FLOAT * width, height, inputs, panels);
      copyRows(rows, outputs, { data: view(to, rows * width), start: 0, stride: width }, y);
    },
  };
}

function fillPanels(panels, { data, start, outputs, inputs, outputStride, inputStride }) {
  for (let first = 0, panel = 0; first < outputs; first += PANEL, panel += PANEL * inputs) {
    for (let column = 0; column < PANEL; column += 1) {
      const isThere = first + column < outputs;
      let from = start + (first + column) * outputStride;
      for (let to = panel + column; to < panel + PANEL * inputs; to += PANEL, from += inputStride) {
        panels[to] = isThere ? data[from] : 0;
      }
    }
  }
}

function copyRows(count, width, from, to) {
  if (from.stride === width && to.stride === width) {
    to.data.set(from.data.subarray(from.start, from.start + count * width), to.start);
    return;
  }
  for (let row = 0; row < count; row += 1) {  // short rows: a loop is faster than subarrays
    const [source, target] = [from.start + row * from.stride, to.start + row * to.stride];
    for (let i = 0; i < width; i += 1) to.data[target + i] = from.data[source + i];
  }
}

// x [rows, inputs] · kernelᵀ + bias, of a matrix that is prepared.
function project(products, x, rows, matrix) {
  const { inputs, outputs } = matrix;
  const product = new Float32Array(rows * outputs);
  products.multiply({ data: x, start: 0, stride: inputs }, rows, matrix, { data: product, start: 0, stride: outputs });
  return product;
}

// query · keyᵀ / √D of each head, [A, S, S]; query and key are [S, A, D]. The keys are the matrix.
function scoreHeads(products, query, key, [length, heads, size]) {
  const scores = new Float32Array(heads * length * length);
  for (let head = 0; head < heads; head += 1) {
    const [vectors, map] = placeHead(head, length, heads, size);
    const keys = products.lend({ ...vectors, data: key, outputs: length, inputs: size, outputStride: vectors.stride, inputStride: 1 });
    products.multiply({ ...vectors, data: query }, length, keys, { ...map, data: scores });
  }
  for (let place = 0; place < scores.length; place += 1) scores[place] /= Math.sqrt(size);
  return scores;
}

// probs [A, S, S] · value [S, A, D] of each head: the context [S, A, D]. The values are the matrix.
function mixHeads(products, probs, value, [length, heads, size]) {
  const context = new Float32Array(length * heads * size);
  for (let head = 0; head < heads; head += 1) {
    const [vectors, map] = placeHead(head, length, heads, size);
    const values = products.lend({ ...vectors, data: value, outputs: size, inputs: length, outputStride: 1, inputStride: vectors.stride });
    products.multiply({ ...map, data: probs }, length, values, { ...vectors, data: context });
  }
  return context;
}

// Where a head's vectors lie in [S, A, D], and its map in [A, S, S].
const placeHead = (head, length, heads, size) =>
  [{ start: head * size, stride: heads * size }, { start: head * length * length, stride: length }];
