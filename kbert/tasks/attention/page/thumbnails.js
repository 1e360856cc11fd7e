// Model view: every head of every layer on some pixels.
const SIGNS = { next: "→", previous: "←", itself: "↺", "[SEP]": "S", "[CLS]": "C" };
const side = largest ? facts.side : size;
const pixelsOf = largest ? { true: bytes("thumbnails"), false: bytes("plain-thumbnails") } : null;

function describe(number) {
  const { entropy, distance, looks_at: at } = facts.figures[number];
  const looks = at.length ? `, looks at ${at.map(lookText).join(" and ")}` : "";
  return `entropy ${two(entropy)} bits, distance ${two(distance)} tokens${looks}`;
}
function lookText(target) {
  return { next: "the next token", previous: "the token before", itself: "the token itself" }[target] || target;
}

function fillThumbnails() {
  const box = $("thumbnails");
  box.style.gridTemplateColumns = `auto repeat(${heads.length}, minmax(0, 4.5rem))`;
  const name = (text) => element("span", { className: "name", textContent: text });
  box.setAttribute("role", "group");
  box.setAttribute("aria-label", "All heads; arrow keys go from one to the next");
  box.append(name(""), ...heads.map(name));
  layers.forEach((layerNumber, layer) => {
    box.append(name(layerNumber), ...heads.map((headNumber, head) => thumbnail(layer, head)));
  });
  roving(box, () => [...box.querySelectorAll("button")], heads.length);
  fillLegend();
}

function thumbnail(layer, head) {
  const number = numberOf(layer, head);
  const button = element("button", { type: "button", tabIndex: -1 }, element("canvas"));
  const label = `Layer ${layers[layer]}, head ${heads[head]}: ${describe(number)}`;
  button.setAttribute("aria-label", label);
  button.title = label;
  const signs = facts.figures[number].looks_at.map((target) => SIGNS[target]).join("");
  if (signs) button.append(element("span", { className: "badge", textContent: signs }));
  button.addEventListener("click", () => change({ layer, head }));
  return button;
}

function fillLegend() {
  for (const target of facts.targets) {
    const count = facts.figures.filter((one) => one.looks_at.includes(target)).length;
    const text = `${lookText(target)}: ${count} ${count === 1 ? "head" : "heads"}`;
    $("legend").append(element("div", {}, element("dt", { textContent: SIGNS[target] }), element("dd", { textContent: text })));
  }
  const percent = Math.round(100 * facts.looks);
  $("rule").textContent =
    `A head is marked where, on average over the tokens, more than ${percent} % of a token's attention goes there ` +
    "(the rule of Clark et al. 2019, What Does BERT Look At?, section 3.1, here on this text alone).";
}

// The pixels of what is shown: all of it, or one sentence's part.
function cropOf(places) {
  if (!places.length) return [0, 0];
  const [first, last] = [places[0], places[places.length - 1]];
  return [Math.floor((first * side) / size), Math.ceil(((last + 1) * side) / size)];
}

function drawThumbnails() {
  const [rows, columns] = [shown("from"), shown("to")];
  const canvases = $("thumbnails").querySelectorAll("canvas");
  const [top, bottom] = cropOf(rows);
  const [left, right] = cropOf(columns);
  canvases.forEach((canvas, number) => {
    if (largest) {
      const found = pixelsOf[state.special];
      const at = (row, column) => found[(number * side + top + row) * side + left + column];
      paint(canvas, bottom - top, right - left, "weights", at);
    } else {
      const at = (row, column) => shade(weightOf(number, rows[row], columns[column]), 1);
      paint(canvas, rows.length, columns.length, "weights", at);
    }
  });
}

views.push({
  needs: ["layer", "head", "special", "direction", "colours"],
  draw(changes) {
    if (changes.some((name) => ["special", "direction", "colours"].includes(name))) drawThumbnails();
    const buttons = [...$("thumbnails").querySelectorAll("button")];
    buttons.forEach((button, number) => {
      button.setAttribute("aria-pressed", number === chosen());
      if (!buttons.includes(document.activeElement)) button.tabIndex = number === chosen() ? 0 : -1;
    });
  },
});
