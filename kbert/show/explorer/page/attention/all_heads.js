// The heads of all blocks as small maps, to choose from.

const HEAD_PIXELS = 48;  // of a map's side, at most
const HEAD_MARKS = { next: "→", previous: "←", itself: "•", "[SEP]": "S", "[CLS]": "C" };
const drawnHeads = { trace: null, shown: 0, pixels: null, grid: null };  // a trace's maps do not change

// Whether a page has a head; the map of some heads lacks the others.
const hasHead = (probs, head) => !probs.heads || probs.heads.includes(head + 1);

function allHeads(view) {
  const details = h("details.all-heads", { open: state.allHeads, ontoggle: () => {
    if (details.open === state.allHeads) return;
    setAttention({ allHeads: details.open });
    redrawStage();
  } }, h("summary", { "data-key": "all-heads" }, "The heads of all blocks"));
  if (state.allHeads) {
    details.append(headGrid(view), h("p.dim",
      "→ next token · ← previous · • itself · S [SEP] · C [CLS]: gets more than half of the attention, on average " +
      "(Clark et al. 2019, section 3.1)."));
  }
  return details;
}

function headGrid(view) {
  const { trace, block, head } = view;
  const key = { trace, shown: view.shown.length, pixels: shades.pixels };  // the theme's
  if (Object.keys(key).some((name) => drawnHeads[name] !== key[name])) {
    Object.assign(drawnHeads, key, { grid: drawHeadGrid(view) });
  }
  for (const choice of drawnHeads.grid.querySelectorAll("button")) {
    const chosen = choice.dataset.key === `all-${block}-${head}`;
    choice.setAttribute("aria-pressed", String(chosen));
    choice.tabIndex = chosen ? 0 : -1;
  }
  return drawnHeads.grid;
}

function drawHeadGrid({ trace, tokens, shown, config }) {
  const grid = h("div.head-grid", { role: "group", "aria-label": "Heads of all blocks", style: `--heads:${config.A}` });
  for (let block = config.L; block >= 1; block -= 1) {
    const probs = trace.tensors.get(`Encoder-${block}-MultiHeadSelfAttention/probs`);
    if (!probs) continue;
    const kinds = headKinds(probs, tokens);
    const draw = ({ target }, head) => {
      if (!hasHead(probs, head)) return h("span", {});
      const label = `Block ${block}, head ${head + 1}${looksAt(target, tokens)}`;
      const map = shrinkMap(headMap(probs, head), tokens.length, shown);
      const mark = target ? h("b", { "aria-hidden": "true" }, HEAD_MARKS[target]) : null;
      return headButton(block, head, label, { "data-key": `all-${block}-${head}` }, map, mark);
    };
    grid.append(h("span.dim", block), ...kinds.map(draw));
  }
  grid.addEventListener("keydown", moveInGrid);
  return grid;
}

// The part of a map that is shown, in few pixels: each is the largest weight of its place.
function shrinkMap(map, size, shown) {
  const side = Math.min(HEAD_PIXELS, shown.length);
  const pixels = new Float32Array(side * side);
  shown.forEach((row, y) => shown.forEach((column, x) => {
    const at = Math.floor((y * side) / shown.length) * side + Math.floor((x * side) / shown.length);
    pixels[at] = Math.max(pixels[at], map[row * size + column]);
  }));
  return [pixels, side];
}

// Arrows go from head to head, and from block to block.
function moveInGrid(event) {
  const choices = [...event.currentTarget.querySelectorAll("button")];
  const [at, wide] = [choices.indexOf(event.target), DATA.live.config.A];
  const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -wide, ArrowDown: wide }[event.key];
  if (!step) return;
  choices[at + step]?.focus();
  event.preventDefault();
  event.stopPropagation();
}
