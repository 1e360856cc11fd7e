// The figure's edges, and which of them and of the boxes are lit.

function edge(from, to, tensor, points) {
  const tip = points.slice(-2);
  const label = from === "Embedding-Token" ? "table" : `output ${tensor}`;
  return s("g.edge", { "data-from": from, "data-to": to },
    s("path", { d: FIGURE.path(points) }),
    s("path.tip", { d: arrow(points.slice(-4, -2), tip) }),
    tensor ? s("text.edge-label", { x: tip[0] + 6, y: tip[1] + 26 }, label) : null);
}

function arrow([x1, y1], [x2, y2]) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
  const corner = (side) => `${x2 - dx * 7 - side * dy} ${y2 - dy * 7 + side * dx}`;
  return `M${x2} ${y2}L${corner(3.4)}L${corner(-3.4)}Z`;
}

// Straight lines with round corners.
function rounded(points) {
  let path = `M${points[0]} ${points[1]}`;
  for (let place = 2; place < points.length - 2; place += 2) {
    const [x0, y0, x, y, x2, y2] = points.slice(place - 2, place + 4);
    const near = (a, b) => {
      const length = Math.hypot(a - x, b - y) || 1;
      const radius = Math.min(8, length / 2);
      return `${x + ((a - x) * radius) / length} ${y + ((b - y) * radius) / length}`;
    };
    path += `L${near(x0, y0)}Q${x} ${y} ${near(x2, y2)}`;
  }
  return `${path}L${points.at(-2)} ${points.at(-1)}`;
}

// Lights the layer that is pointed at, or else chosen, with its inputs and its outputs.
function light(svg, pointed) {
  const own = boxNow(pointed || state.chosen);
  const edges = [...svg.querySelectorAll(".edge")];
  const inputs = edges.filter(({ dataset }) => dataset.to === own);
  const outputs = edges.filter(({ dataset }) => dataset.from === own);
  for (const one of svg.querySelectorAll(".edge, [data-layer]")) {
    const { layer } = one.dataset;
    const isEnd = (end) => (other) => other === one || other.dataset[end] === layer;
    one.classList.toggle("in", inputs.some(isEnd("from")));
    one.classList.toggle("out", outputs.some(isEnd("to")));
    one.classList.toggle("chosen", Boolean(state.chosen) && layer === boxNow(state.chosen));
  }
  svg.classList.toggle("lit", inputs.length + outputs.length > 0);
}

// The box that a layer is drawn in: a head is one of the heads.
const boxNow = (id) => (id || "").replace(/\/head-\d+$/, "/heads");
