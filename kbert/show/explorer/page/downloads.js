// The figure as SVG and PNG, the table as CSV, the configuration as JSON.

const INLINED = [
  "fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-family",
  "font-size", "font-weight", "text-anchor", "letter-spacing", "display", "visibility",
];

const fileName = () => nameOf(current()).replace(/[^\w.-]+/g, "_").slice(0, 60) || "model";

function save(ending, content, type, name = `${fileName()}.${ending}`) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// A copy of the figure with its styles in its elements: it looks the same in any program.
function standalone() {
  const source = drawing();
  const copy = source.cloneNode(true);
  const [originals, copies] = [source, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  originals.forEach((element, place) => inlineStyle(element, copies[place]));
  copy.removeAttribute("style");
  copy.removeAttribute("id");

  if (live) addStrips(copy);
  const { x, y, width, height } = copy.viewBox.baseVal;
  fill(copy, { xmlns: SVG, width, height });
  copy.prepend(s("rect", { x, y, width, height, fill: colourOf("paper") }));
  return copy;
}

function inlineStyle(element, copy) {
  for (const name of copy.getAttributeNames()) {
    if (/^(data-|aria-(?!label)|role|tabindex|class)/.test(name)) copy.removeAttribute(name);
  }
  const style = getComputedStyle(element);
  for (const name of INLINED) {
    const value = style.getPropertyValue(name).replaceAll('"', "'");
    if (value && !(name === "opacity" && value === "1")) copy.setAttribute(name, value);
  }
}

const svgText = (svg) => new XMLSerializer().serializeToString(svg);

async function png() {
  const svg = standalone();
  const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
  const [font] = document.styleSheets[0].cssRules;  // @font-face, where there are no others
  svg.prepend(s("style", font.cssText));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await image.decode();
  const scale = Math.min(2, 16000 / Math.max(width, height));
  const canvas = h("canvas", {
    width: Math.round(width * scale), height: Math.round(height * scale),
  });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

const DOWNLOADS = {
  svg: () => save("svg", `<?xml version="1.0" encoding="UTF-8"?>\n${svgText(standalone())}\n`,
    "image/svg+xml"),
  png: async () => save("png", await png(), "image/png"),
  csv: () => save("csv", csv(current()), "text/csv"),
  config: () => save("", configJson(current()), "application/json", DATA.configFile),
};
