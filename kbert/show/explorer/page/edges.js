// The figure's edges, and which of them and of the boxes are lit.

const HALF_ARROW = 3.4;

function edge(from, to, tensor, points) {
  const curved = generic;
  const tip = points.slice(-2);
  const line = curved ? curve(points) : rounded(points);
  const before = points.slice(-4, -2);
  const label = tensor
    ? s("text", { class: "edge-label", x: tip[0] + 6, y: tip[1] + 26 },
      from === "Embedding-Token" ? "table" : `output ${tensor}`)
    : null;
  return s("g", { class: "edge", "data-from": from, "data-to": to },
    s("path", { d: line }), s("path", { class: "tip", d: arrow(before, tip) }), label);
}

function arrow([x1, y1], [x2, y2]) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
  const [bx, by] = [x2 - dx * 7, y2 - dy * 7];
  const side = (sign) => `${bx - sign * dy * HALF_ARROW} ${by + sign * dx * HALF_ARROW}`;
  return `M${x2} ${y2}L${side(1)}L${side(-1)}Z`;
}

function curve(points) {
  const pairs = [];
  for (let place = 0; place < points.length; place += 2) {
    pairs.push(`${points[place]} ${points[place + 1]}`);
  }
  return `M${pairs[0]}C${pairs.slice(1, -1).join(" ")}L${pairs.at(-1)}`;
}

// Straight lines with round corners.
function rounded(points) {
  let path = `M${points[0]} ${points[1]}`;
  for (let place = 2; place < points.length - 2; place += 2) {
    const [x0, y0, x, y, x2, y2] = points.slice(place - 2, place + 4);
    const towards = (a, b) => {
      const length = Math.hypot(a - x, b - y) || 1;
      const radius = Math.min(8, length / 2);
      return `${x + ((a - x) * radius) / length} ${y + ((b - y) * radius) / length}`;
    };
    path += `L${towards(x0, y0)}Q${x} ${y} ${towards(x2, y2)}`;
  }
  return `${path}L${points.at(-2)} ${points.at(-1)}`;
}

// What is chosen, or else pointed at, its inputs and its outputs.
function light(svg, pointed) {
  const id = pointed || state.chosen;
  const own = boxNow(id);
  const inputs = new Set();
  const outputs = new Set();
  for (const one of svg.querySelectorAll(".edge")) {
    const { from, to } = one.dataset;
    one.classList.toggle("in", to === own);
    one.classList.toggle("out", from === own);
    if (to === own) inputs.add(from);
    if (from === own) outputs.add(to);
  }
  for (const one of svg.querySelectorAll("[data-layer]")) {
    const layer = one.dataset.layer;
    one.classList.toggle("chosen", Boolean(state.chosen) && layer === boxNow(state.chosen));
    one.classList.toggle("pointed", Boolean(pointed) && layer === own);
    one.classList.toggle("in", inputs.has(layer));
    one.classList.toggle("out", outputs.has(layer));
  }
  svg.classList.toggle("lit", inputs.size + outputs.size > 0);
}

// The box that a layer is drawn in: a head is one of the heads.
function boxNow(id) {
  return id ? id.replace(/\/head-\d+$/, "/heads") : "";
}
