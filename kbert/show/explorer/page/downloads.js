// The figure as SVG and PNG, the table as CSV, the configuration as JSON.

const INLINED = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity", "font-family",
  "font-size", "font-weight", "text-anchor", "letter-spacing", "display", "visibility"];

const fileName = () => modelName().replace(/[^\w.-]+/g, "_").slice(0, 60) || "model";

function save(name, content, type) {
  const url = URL.createObjectURL(content instanceof Blob ? content : new Blob([content], { type }));
  const link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// A copy of the figure with its styles in its elements: it looks the same in any program.
function standalone() {
  const source = drawing();
  const copy = source.cloneNode(true);
  const [originals, copies] = [source, copy].map((root) => [root, ...root.querySelectorAll("*")]);
  originals.forEach((element, place) => inlined(element, copies[place]));
  const [x, y, width, height] = source.getAttribute("viewBox").split(" ").map(Number);
  for (const name of ["style", "class", "id"]) copy.removeAttribute(name);
  const images = live ? stripImages() : [];
  const below = images.length ? TOKEN_ROOM : 0;  // room for the tokens' names
  fill(copy, { xmlns: SVG, width, height: height + below, viewBox: `${x} ${y} ${width} ${height + below}` }, []);
  const paper = getComputedStyle(document.documentElement).getPropertyValue("--paper").trim();
  copy.prepend(s("rect", { x, y, width, height: height + below, fill: paper }));
  copy.append(...images);
  return copy;
}

function inlined(element, copy) {
  const style = getComputedStyle(element);
  for (const name of INLINED) {
    const value = style.getPropertyValue(name);
    if (value && !(name === "opacity" && value === "1")) copy.setAttribute(name, value.replaceAll('"', "'"));
  }
  for (const name of [...copy.getAttributeNames()]) {
    if (/^(data-|aria-|role|tabindex|class)/.test(name) && name !== "aria-label") copy.removeAttribute(name);
  }
}

const svgText = () => `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(standalone())}\n`;

async function png() {
  const svg = standalone();
  const [width, height] = ["width", "height"].map((name) => Number(svg.getAttribute(name)));
  const font = [...document.styleSheets[0].cssRules].find((rule) => rule instanceof CSSFontFaceRule);
  svg.prepend(s("style", {}, font ? font.cssText : ""));
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(svg))}`;
  await image.decode();
  const scale = Math.min(2, 16000 / Math.max(width, height));
  const canvas = h("canvas", { width: Math.round(width * scale), height: Math.round(height * scale) });
  const context = canvas.getContext("2d");
  context.scale(scale, scale);
  context.drawImage(image, 0, 0, width, height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function genericCsv() {
  const quoted = (text) => (/[",\n]/.test(text) ? `"${String(text).replaceAll('"', '""')}"` : text);
  const lines = DATA.generic.rows.map((row) => [row.name, row.type, row.shape, row.params, row.connected_to]);
  return [["layer", "type", "output_shape", "params", "connected_to"], ...lines]
    .map((line) => line.map(quoted).join(",")).join("\n") + "\n";
}

const DOWNLOADS = {
  svg: () => save(`${fileName()}.svg`, svgText(), "image/svg+xml"),
  png: async () => save(`${fileName()}.png`, await png(), "image/png"),
  csv: () => save(`${fileName()}.csv`, generic ? genericCsv() : csv(current()), "text/csv"),
  config: () => save(DATA.configFile, configJson(current()), "application/json"),
};

// Copies a text; the button that was pressed says so.
async function copyText(text, told, pressed) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = h("textarea", { class: "hidden" }, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(told);
  const label = pressed.textContent;
  pressed.textContent = "Copied";
  setTimeout(() => (pressed.textContent = label), 2000);
}
