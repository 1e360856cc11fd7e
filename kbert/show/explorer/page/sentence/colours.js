// Colours of numbers: even steps in OKLab, from a neutral to orange (below 0) or blue (above 0).

const ENDS = {  // lightness, chroma, hue of the neutral, the orange and the blue
  light: { neutral: [0.965, 0.004, 250], low: [0.58, 0.17, 45], high: [0.48, 0.18, 262] },
  dark: { neutral: [0.255, 0.012, 255], low: [0.77, 0.15, 62], high: [0.72, 0.15, 258] },
};
const SHADES = 128;  // on either side

const darkNow = () => (document.documentElement.dataset.theme ||
  (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";

function toLab([lightness, chroma, hue]) {
  const angle = (hue * Math.PI) / 180;
  return [lightness, chroma * Math.cos(angle), chroma * Math.sin(angle)];
}

// From OKLab to the bytes of sRGB (Björn Ottosson's matrices).
function toBytes([lightness, a, b]) {
  const l = (lightness + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (lightness - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const n = (lightness - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * n,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * n,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * n,
  ];
  const encode = (value) => (value <= 0.0031308 ? 12.92 * value : 1.055 * value ** (1 / 2.4) - 0.055);
  return linear.map((value) => Math.round(255 * Math.min(1, Math.max(0, encode(value)))));
}

const palettes = {};

// The palette of the theme: 2 · SHADES + 1 colours, the neutral in the middle.
function paletteNow() {
  const name = darkNow() ? "dark" : "light";
  if (!palettes[name]) {
    const { neutral, low, high } = ENDS[name];
    const middle = toLab(neutral);
    palettes[name] = Array.from({ length: 2 * SHADES + 1 }, (_, place) => {
      const end = toLab(place < SHADES ? low : high);
      const part = Math.abs(place - SHADES) / SHADES;
      return toBytes(middle.map((value, axis) => value + (end[axis] - value) * part));
    });
  }
  return palettes[name];
}

// The colour of a value from −1 to 1.
function colourOf(value, palette = paletteNow()) {
  const bounded = Math.min(1, Math.max(-1, value));
  return palette[Math.round(bounded * SHADES) + SHADES];
}

const cssColour = (value) => `rgb(${colourOf(value).join(" ")})`;

function cssGradient(from, to) {
  const steps = Array.from({ length: 9 }, (_, place) => cssColour(from + ((to - from) * place) / 8));
  return `linear-gradient(90deg, ${steps.join(", ")})`;
}

// The bytes of a strip's picture: a pixel a value, nothing where there is none.
function paintPixels(values, bytes) {
  const palette = paletteNow();
  values.forEach((value, place) => {
    if (Number.isNaN(value)) return;
    const [red, green, blue] = colourOf(value, palette);
    bytes[4 * place] = red;
    bytes[4 * place + 1] = green;
    bytes[4 * place + 2] = blue;
    bytes[4 * place + 3] = 255;
  });
}
