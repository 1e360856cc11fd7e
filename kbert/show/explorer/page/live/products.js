// Products of matrices, by WebAssembly; in plain JavaScript where a page may not use it.
//
//   prepare({kernel, bias, inputs, outputs})  the form of a matrix that `multiply` takes
//   multiply(x, rows, matrix)                 x [rows, inputs] · kernelᵀ + bias
//   score(query, key, length, heads, size)    query · keyᵀ of each head, [A, S, S]; both are [S, A, D]
//   mix(probs, value, length, heads, size)    probs [A, S, S] · value [S, A, D] of each head, [S, A, D]

function makeProducts() {
  try {
    return makeFastProducts(decodeBase64(PRODUCTS_WASM));
  } catch {
    return makePlainProducts();  // a policy without 'wasm-unsafe-eval', or an old browser
  }
}

const PANEL = 8;          // outputs that are multiplied side by side, see products.wat
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
  const room = new Map();
  // A place for that many numbers, kept for the next product.
  const reserve = (name, numbers) => {
    if (!room.has(name) || room.get(name).numbers < numbers) {
      room.set(name, { numbers: 2 * numbers, start: allocate(2 * numbers) });
    }
    return room.get(name).start;
  };
  const view = (start, numbers) => new Float32Array(memory.buffer, start, numbers);
  const machine = { multiply, allocate, reserve, view };
  return {
    isFast: true,
    prepare: (matrix) => prepareMatrix(machine, matrix),
    multiply: (x, rows, matrix) => multiplyMatrix(machine, x, rows, matrix),
    score: (...operands) => scoreHeads(machine, ...operands),
    mix: (...operands) => mixHeads(machine, ...operands),
  };
}

// A kernel [outputs, inputs] in panels, [panels][inputs][8]; missing outputs are zeros.
function prepareMatrix({ allocate, view }, { kernel, bias, inputs, outputs }) {
  const panels = Math.ceil(outputs / PANEL);
  const weights = allocate(panels * inputs * PANEL);
  fillPanels(view(weights, panels * inputs * PANEL), kernel, outputs, inputs, 0, inputs);
  const biasStart = allocate(panels * PANEL);
  if (bias) view(biasStart, outputs).set(bias);
  return { weights, bias: biasStart, inputs, outputs, panels };
}

// Rows of `width` numbers, `stride` apart, each a column of the panels.
function fillPanels(panels, rows, count, width, offset, stride) {
  for (let first = 0, panel = 0; first < count; first += PANEL, panel += PANEL * width) {
    for (let column = 0; column < PANEL; column += 1) {
      const isThere = first + column < count;
      const row = offset + (first + column) * stride;
      for (let i = 0; i < width; i += 1) panels[panel + i * PANEL + column] = isThere ? rows[row + i] : 0;
    }
  }
}

function multiplyMatrix({ multiply, reserve, view }, x, rows, { weights, bias, inputs, outputs, panels }) {
  const width = panels * PANEL;
  const from = reserve("x", rows * inputs);
  const to = reserve("y", rows * width);
  view(from, rows * inputs).set(x);
  multiply(from, FLOAT * inputs, weights, bias, to, FLOAT * width, rows, inputs, panels);
  const product = new Float32Array(rows * outputs);
  copyRows(view(to, rows * width), width, product, 0, outputs, rows, outputs);
  return product;
}

// The first numbers of some rows, into rows that begin at `start` and are `stride` apart.
function copyRows(rows, width, target, start, stride, count, numbers) {
  if (width === numbers && stride === numbers) {
    target.set(rows.subarray(0, count * numbers), start);
    return;
  }
  for (let row = 0; row < count; row += 1) {
    target.set(rows.subarray(row * width, row * width + numbers), start + row * stride);
  }
}

// The keys of a head are its matrix: a score is an output.
function scoreHeads({ multiply, reserve, view }, query, key, length, heads, size) {
  const hidden = heads * size;
  const panels = Math.ceil(length / PANEL);
  const width = panels * PANEL;
  const from = reserve("x", length * hidden);
  const weights = reserve("weights", width * size);
  const bias = reserveZeros({ reserve, view }, width);
  const to = reserve("y", length * width);
  view(from, length * hidden).set(query);
  const scores = new Float32Array(heads * length * length);
  for (let head = 0; head < heads; head += 1) {
    const place = FLOAT * head * size;
    fillPanels(view(weights, width * size), key, length, size, head * size, hidden);
    multiply(from + place, FLOAT * hidden, weights, bias, to, FLOAT * width, length, size, panels);
    copyRows(view(to, length * width), width, scores, head * length * length, length, length, length);
  }
  return scores;
}

// The values of a head are its matrix: their tokens are the inputs.
function mixHeads({ multiply, reserve, view }, probs, value, length, heads, size) {
  const hidden = heads * size;
  const panels = Math.ceil(size / PANEL);
  const width = panels * PANEL;
  const from = reserve("x", heads * length * length);
  const weights = reserve("weights", width * length);
  const bias = reserveZeros({ reserve, view }, width);
  const to = reserve("y", length * width);
  view(from, heads * length * length).set(probs);
  const context = new Float32Array(length * hidden);
  for (let head = 0; head < heads; head += 1) {
    const place = FLOAT * head * length * length;
    fillValuePanels(view(weights, width * length), value, length, size, head * size, hidden);
    multiply(from + place, FLOAT * length, weights, bias, to, FLOAT * width, length, length, panels);
    copyRows(view(to, length * width), width, context, head * size, hidden, length, size);
  }
  return context;
}

function fillValuePanels(panels, value, length, size, offset, stride) {
  for (let first = 0, place = 0; first < size; first += PANEL) {
    for (let token = 0; token < length; token += 1) {
      const row = offset + token * stride + first;
      for (let column = 0; column < PANEL; column += 1, place += 1) {
        panels[place] = first + column < size ? value[row + column] : 0;
      }
    }
  }
}

// Attention's products have no bias.
function reserveZeros({ reserve, view }, numbers) {
  const start = reserve("zeros", numbers);
  view(start, numbers).fill(0);
  return start;
}
