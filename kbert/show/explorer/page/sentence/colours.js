// Colours of numbers: from the palette's orange, below 0, through its neutral to its blue.

const SHADES = 128;  // on either side
const shades = { pixels: null, paper: "", ink: "", accent: "" };

// Reads the colours of the styles: when the theme changes, not at each frame.
function readShades() {
  for (const name of ["paper", "ink", "accent"]) shades[name] = colourOf(name);
  const count = 2 * SHADES + 1;
  const context = h("canvas", { width: count, height: 1 }).getContext("2d");
  context.fillStyle = context.createLinearGradient(0.5, 0, count - 0.5, 0);
  ["out", "soft", "in"].forEach((name, n) => context.fillStyle.addColorStop(n / 2, colourOf(name)));
  context.fillRect(0, 0, count, 1);
  shades.pixels = new Uint32Array(context.getImageData(0, 0, count, 1).data.buffer);
}

// Paints numbers, in rows, as a pixel each; `most` has the strongest colour, NaN none.
function paintHeat(canvas, values, columns, most = 1) {
  Object.assign(canvas, { width: columns, height: values.length / columns });
  const context = canvas.getContext("2d", { willReadFrequently: true });  // small: not on the GPU
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  for (let n = 0; n < values.length; n += 1) {
    const part = Math.min(1, Math.max(-1, values[n] / most));
    if (!Number.isNaN(part)) pixels[n] = shades.pixels[Math.round(part * SHADES) + SHADES];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}
