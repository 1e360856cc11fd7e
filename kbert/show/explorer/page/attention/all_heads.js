// The heads of all blocks as small maps, to choose from.

const HEAD_PIXELS = 48;  // of a map's side, at most
const HEAD_MARKS = {
  next: "→", previous: "←", itself: "•", "[SEP]": "S", "[CLS]": "C", off: "×",
};
const MARKS_TOLD = "→ next token · ← previous · • itself · S [SEP] · C [CLS]: gets more than half " +
  "of the attention, on average (Clark et al. 2019, section 3.1).";
// A trace's maps do not change: they are drawn once.
const drawnHeads = { trace: null, block: 0, shown: 0, pixels: null, grid: null };

// Whether a page has a head; the map of some heads lacks the others.
const hasHead = (probs, head) => !probs.heads || probs.heads.includes(head + 1);

function headChooser(view) {
  const { allHeads } = state;
  const toggle = () => {
    setAttention({ allHeads: !allHeads });
    redrawStage();
  };
  return h("div.all-heads",
    button(allHeads ? "The heads of this block alone" : "The heads of all blocks", toggle,
      { class: "small", "data-key": "all-heads" }),
    headGrid(view), h("p.dim", MARKS_TOLD));
}

function headGrid(view) {
  const { trace, block, head } = view;
  const { pixels } = shades;  // the theme's
  const key = { trace, block: state.allHeads ? 0 : block, shown: view.shown.length, pixels };
  if (Object.keys(key).some((name) => drawnHeads[name] !== key[name])) {
    const blocks = Array.from({ length: view.config.L }, (_, place) => view.config.L - place);
    const grid = drawHeadGrid(view, state.allHeads ? blocks : [block]);
    Object.assign(drawnHeads, key, { grid });
  }
  for (const choice of drawnHeads.grid.querySelectorAll("button")) {
    const chosen = choice.dataset.key === `all-${block}-${head}`;
    choice.setAttribute("aria-pressed", String(chosen));
    choice.tabIndex = chosen ? 0 : -1;
  }
  return drawnHeads.grid;
}

function drawHeadGrid({ trace, tokens, shown, config }, blocks) {
  const grid = h("div.head-grid", {
    role: "group", "aria-label": "Heads", style: `--heads:${config.A}`, onkeydown: moveInGrid,
  });
  for (const block of blocks) {
    const probs = trace.tensors.get(`Encoder-${block}-MultiHeadSelfAttention/probs`);
    if (!probs) continue;
    const off = headsOff({ trace, block });
    const draw = ({ target }, head) => {
      if (!hasHead(probs, head)) return h("span");
      const mark = off.has(head + 1) ? "off" : target;
      const told = mark === "off" ? ", switched off" : looksAt(target, tokens);
      return h("button", {
        type: "button", "aria-label": `Block ${block}, head ${head + 1}${told}`,
        "data-key": `all-${block}-${head}`, onclick: () => goToHead(block, head),
      }, heatCanvas(...shrinkMap(headMap(probs, head), tokens.length, shown), "weights", 1),
      mark && h("b", { "aria-hidden": "true" }, HEAD_MARKS[mark]));
    };
    grid.append(h("span.dim", block), ...headKinds(probs, tokens).map(draw));
  }
  return grid;
}

const looksAt = (target, tokens) => (target ? `, looks at ${targetText(target, tokens)}` : "");

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
