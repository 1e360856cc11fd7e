// How large the figure is. It scrolls in its pane; with a sentence, sentence/stack.js moves it.

const view = { scale: 1, x: 0, y: 0, fitted: true };

const pane = () => $("figure");
const drawing = () => $("drawing");

// A sentence goes through the page's own model, not through another one that the sliders make.
const sentenceShown = () => Boolean(live) && state.active === 0 && !changedSizes(current()).length;
const besideStage = () => sentenceShown() && !phone.matches;

const size = () => drawing().viewBox.baseVal;  // its width and height

function place() {
  const { width, height } = size();
  Object.assign(drawing().style, {
    width: `${width * view.scale}px`, height: `${height * view.scale}px`,
    transform: live ? `translate(${view.x}px, ${view.y}px)` : "",
  });
  FIGURE.follow();
}

// Brings a box into view; a frame is brought in whole, as large as can be read.
function bring(selector, asRead) {
  const element = drawing().querySelector(selector);
  if (!element) return;
  if (asRead) FIGURE.enlarge(element);
  bringElement(element, asRead && !live);
}

// What is open as a whole, then in it what is chosen.
const bringOpen = () => bring(state.attention ? ".f-attention" : ".f-block", true);

function bringChosen() {
  if (state.open) bringOpen();
  if (generic && view.scale < 0.7) FIGURE.zoom(0.9 / view.scale);
  bringLayer();
  bringRow();
}

const bringLayer = () => bring(`[data-layer="${CSS.escape(boxNow(state.chosen))}"]`);

function bringElement(element, isCentred = false) {
  const room = pane().getBoundingClientRect();
  const box = element.getBoundingClientRect();
  const shift = (low, high, least, most) => {
    if (isCentred || high - low > most - least - 24) return (low + high - least - most) / 2;
    return Math.min(0, low - least - 12) + Math.max(0, high - most + 12);
  };
  const down = shift(box.top, box.bottom, room.top, room.bottom);
  FIGURE.scroll(shift(box.left, box.right, room.left, room.right), down);
}

// On a phone, brings the chosen row between what lies over the page above and below.
function bringRow(block = "center") {
  if (!phone.matches) return;
  const row = state.chosen ? FIGURE.row(CSS.escape(boxNow(state.chosen))) : ".f-block";
  document.querySelector(row)?.scrollIntoView({ block });
}

function watchPane() {
  FIGURE.watch();
  new ResizeObserver(() => (view.fitted ? FIGURE.fit() : place())).observe(pane());
}
