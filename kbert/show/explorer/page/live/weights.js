// The weights, as the page holds them: bytes of one tensor after the other, each in its format.
//
//   float32  numbers                    float16  numbers
//   int8     float16 scales, one for every 32 numbers of a row; then the numbers, in units of these
//
// A kernel's rows are its outputs. Every part begins at a multiple of 4 bytes.

const GROUP = 32;
const BYTES = { float32: 4, float16: 2, int8: 1 };
const roundUp = (number, step) => Math.ceil(number / step) * step;

function makeWeights(layout, bytes) {
  const tensors = new Map();
  let offset = 0;
  for (const [name, shape, format] of layout) {
    const width = shape[shape.length - 1];
    const rows = shape.reduce((product, size) => product * size, 1) / width;
    const groups = format === "int8" ? Math.ceil(width / GROUP) : 0;
    const start = offset + roundUp(2 * rows * groups, 4);
    tensors.set(name, { shape, format, rows, width, groups, scales: offset, start });
    offset = start + roundUp(BYTES[format] * rows * width, 4);
  }
  if (offset !== bytes.length) throw new Error(`the weights must have ${offset} bytes, got ${bytes.length}`);
  return {
    has: (name) => tensors.has(name),
    shapeOf: (name) => tensors.get(name).shape,
    read: (name) => readRows(bytes, tensors.get(name), 0, tensors.get(name).rows),
    readRow: (name, row) => readRows(bytes, tensors.get(name), row, 1),
  };
}

// Some rows of a tensor, as float32.
function readRows(bytes, { format, width, groups, scales, start }, first, count) {
  const size = BYTES[format];
  const from = bytes.byteOffset + start + size * width * first;
  const numbers = count * width;
  if (format === "float32") return new Float32Array(bytes.buffer.slice(from, from + 4 * numbers));
  if (format === "float16") return readFloat16(bytes.buffer, from, numbers);
  const scale = readFloat16(bytes.buffer, bytes.byteOffset + scales + 2 * groups * first, groups * count);
  const quantized = new Int8Array(bytes.buffer, from, numbers);
  const values = new Float32Array(numbers);
  for (let row = 0, place = 0; row < count; row += 1) {
    for (let group = 0; group < groups; group += 1) {
      const unit = scale[row * groups + group];
      const end = row * width + Math.min(width, (group + 1) * GROUP);
      for (; place < end; place += 1) values[place] = quantized[place] * unit;
    }
  }
  return values;
}

let float16Values = null;  // by their 16 bits

function readFloat16(buffer, start, count) {
  float16Values ??= Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = (bits & 1023) / 1024;
    if (exponent === 31) return fraction ? NaN : sign * Infinity;
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction) : 2 ** -14 * fraction);
  });
  const bits = new Uint16Array(buffer, start, count);
  const values = new Float32Array(count);
  for (let place = 0; place < count; place += 1) values[place] = float16Values[bits[place]];
  return values;
}

function decodeBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < bytes.length; place += 1) bytes[place] = binary.charCodeAt(place);
  return bytes;
}
