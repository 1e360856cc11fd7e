// How large the figure is. It scrolls in its pane; with a sentence, sentence/stack.js moves it.

const view = { scale: 1, x: 0, y: 0, fitted: true };
const LEAST = 0.15;
const GREATEST = 5;

const pane = () => $("figure");
const drawing = () => $("drawing");

// A sentence goes through the page's own model, not through another one that the sliders make.
const sentenceShown = () => Boolean(live) && state.active === 0 && !changedSizes(current()).length;
// The boxes are a column then; on a phone they are, where there can be a sentence.
const stacked = () => sentenceShown() || (Boolean(live) && phone.matches);
const besideStage = () => sentenceShown() && !phone.matches;

const size = () => drawing().viewBox.baseVal;  // its width and height

function place() {
  const { width, height } = size();
  Object.assign(drawing().style, {
    width: `${width * view.scale}px`, height: `${height * view.scale}px`,
    transform: stacked() ? `translate(${view.x}px, ${view.y}px)` : "",
  });
  $("zoom-level").textContent = `${Math.round(view.scale * 100)} %`;
  if (live) followFigure();
}

// All of it, as large as there is room, and no larger than 1.8 times.
function fitAll() {
  if (stacked()) {
    fitStack();
    return;
  }
  const { width, height } = size();
  const room = pane();
  room.style.height = "";
  if (!room.clientWidth || !room.clientHeight) return;
  view.scale = Math.min((room.offsetWidth - 16) / width, (room.offsetHeight - 16) / height, 1.8);
  view.fitted = true;
  place();
}

// What is in the middle of the pane stays there.
function zoom(factor) {
  const room = pane();
  const x = (room.scrollLeft + room.clientWidth / 2) / room.scrollWidth;
  const y = (room.scrollTop + room.clientHeight / 2) / room.scrollHeight;
  view.scale = Math.min(GREATEST, Math.max(LEAST, view.scale * factor));
  view.fitted = false;
  place();
  room.scrollLeft = x * room.scrollWidth - room.clientWidth / 2;
  room.scrollTop = y * room.scrollHeight - room.clientHeight / 2;
}

// Brings a box into view; a frame is brought in whole, as large as can be read.
function bring(selector, asRead) {
  const element = drawing().querySelector(selector);
  if (element) bringElement(element, asRead && !stacked());  // a column is readable as it stands
}

// What is open as a whole, then in it what is chosen.
const bringOpen = () => bring(state.attention ? ".f-attention" : ".f-block", true);

function bringChosen() {
  if (state.open) bringOpen();
  if (generic && view.scale < 0.7) zoom(0.9 / view.scale);
  bringLayer();
  bringRow();
}

const bringLayer = () => bring(`[data-layer="${CSS.escape(boxNow(state.chosen))}"]`);

function bringElement(element, asRead = false) {
  const room = pane().getBoundingClientRect();
  if (asRead) {
    const { width, height } = element.getBoundingClientRect();
    const wide = (room.width - 24) / (width / view.scale);
    const high = (room.height - 24) / (height / view.scale);
    zoom(Math.min(wide, 1.15, Math.max(high, 0.72)) / view.scale);
  }
  const box = element.getBoundingClientRect();
  const shift = (low, high, least, most) => {
    if (asRead || high - low > most - least - 24) return (low + high - least - most) / 2;
    return Math.min(0, low - least - 12) + Math.max(0, high - most + 12);
  };
  const down = shift(box.top, box.bottom, room.top, room.bottom);
  if (stacked()) {
    scrollStack(down);
    place();
  } else {
    pane().scrollBy(shift(box.left, box.right, room.left, room.right), down);
  }
}

// Brings the chosen row between what lies over the list above and below; in a column, its box.
function bringRow(block = "center") {
  if (!phone.matches) return;
  const name = CSS.escape(boxNow(state.chosen));
  const row = $("layers").querySelector(`[data-row="${name}"]`);
  (row || drawing().querySelector(`[data-id="${name}"]`))?.scrollIntoView({ block });
}

function watchPane() {
  pane().addEventListener("wheel", (event) => {
    if (!stacked() || event.ctrlKey) return;
    if (scrollStack(event.deltaY)) event.preventDefault();
    place();
  }, { passive: false });
  new ResizeObserver(() => (view.fitted || stacked() ? fitAll() : place())).observe(pane());
}
