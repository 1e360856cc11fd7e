// Colours of weights and of signed numbers, light or dark; what is printed is light. RAMPS and SIGNED are the palette's.
const darkness = matchMedia("screen and (prefers-color-scheme: dark)");
function rgb(colour) {
  return [1, 3, 5].map((n) => parseInt(colour.slice(n, n + 2), 16));
}

// 256 colours between those of a list, as numbers for an ImageData of 32 bits.
function ramp(colours) {
  const found = new Uint32Array(256);
  for (let n = 0; n < 256; n++) {
    const place = (n / 255) * (colours.length - 1);
    const low = Math.min(Math.floor(place), colours.length - 2);
    const [from, to] = [rgb(colours[low]), rgb(colours[low + 1])];
    const [r, g, b] = from.map((value, k) => Math.round(value + (to[k] - value) * (place - low)));
    found[n] = (255 << 24) | (b << 16) | (g << 8) | r;
  }
  return found;
}
const ramps = {};
function colours(kind) {
  const scheme = darkness.matches ? "dark" : "light";
  const name = `${kind} ${scheme}`;
  ramps[name] ||= ramp((kind === "weights" ? RAMPS : SIGNED)[scheme]);
  return ramps[name];
}

// Draws a function of (row, column), 0 to 255, on a canvas of rows × columns pixels.
function paint(canvas, rows, columns, kind, valueOf) {
  canvas.width = Math.max(1, columns);
  canvas.height = Math.max(1, rows);
  if (!rows || !columns) return;
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, rows);
  const pixels = new Uint32Array(image.data.buffer);
  const table = colours(kind);
  for (let row = 0, n = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++, n++) pixels[n] = table[valueOf(row, column)];
  }
  context.putImageData(image, 0, 0);
}
const shade = (weight, top) => Math.min(255, Math.round(255 * Math.sqrt(weight / (top || 1))));
const hue = (head) => `oklch(var(--head-l) var(--head-c) ${Math.round((360 * head) / heads.length + 25)})`;
const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
