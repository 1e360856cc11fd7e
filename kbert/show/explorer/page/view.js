// Panning and zooming: the SVG element is moved and sized, its viewBox always holds the whole.

const view = { scale: 1, x: 0, y: 0, fitted: true };
const LEAST = 0.15;
const GREATEST = 5;

const pane = () => $("figure");
const drawing = () => $("drawing");

function size() {
  const [, , width, height] = drawing().getAttribute("viewBox").split(" ").map(Number);
  return { width, height };
}

function place() {
  const { width, height } = size();
  const svg = drawing();
  svg.style.width = `${width * view.scale}px`;
  svg.style.height = `${height * view.scale}px`;
  svg.style.transform = `translate(${view.x}px, ${view.y}px)`;
  pane().classList.toggle("fitted", view.fitted);
  $("zoom-level").textContent = `${Math.round(view.scale * 100)} %`;
  if (live) followFigure();
}

// All of it, as large as there is room, and no larger than 1.8 times.
function fitAll() {
  if (live && sentenceShown()) {
    fitStack();
    return;
  }
  const { width, height } = size();
  const room = pane().getBoundingClientRect();
  if (!room.width || !room.height) return;
  view.scale = Math.min((room.width - 16) / width, (room.height - 16) / height, 1.8);
  view.x = (room.width - width * view.scale) / 2;
  view.y = (room.height - height * view.scale) / 2;
  view.fitted = true;
  place();
}

function zoom(factor, at) {
  const room = pane().getBoundingClientRect();
  const [x, y] = at || [room.width / 2, room.height / 2];
  const scale = Math.min(GREATEST, Math.max(LEAST, view.scale * factor));
  view.x = x - ((x - view.x) * scale) / view.scale;
  view.y = y - ((y - view.y) * scale) / view.scale;
  view.scale = scale;
  view.fitted = false;
  place();
}

function pan(dx, dy) {
  if (live && sentenceShown() && view.scale <= 1) {
    scrollStack(-dy);
    place();
    return;
  }
  view.x += dx;
  view.y += dy;
  view.fitted = false;
  place();
}

// Brings a box into view; a frame is brought in whole, as large as can be read.
function bring(selector, asRead) {
  const readable = asRead && !(live && sentenceShown());  // a column is readable as it stands
  const element = drawing().querySelector(selector);
  if (!element) return;
  const room = pane().getBoundingClientRect();
  let box = element.getBoundingClientRect();
  if (readable) {
    const wanted = Math.min((room.width - 24) / (box.width / view.scale), 1.15,
      Math.max((room.height - 24) / (box.height / view.scale), 0.72));
    zoom(wanted / view.scale);
    box = element.getBoundingClientRect();
  }
  const gap = 12;
  const shift = (low, high, least, most) => {
    if (high - low > most - least - 2 * gap || readable) return (least + most - low - high) / 2;
    return Math.max(0, least + gap - low) + Math.min(0, most - gap - high);
  };
  const dx = shift(box.left, box.right, room.left, room.right);
  const dy = shift(box.top, box.bottom, room.top, room.bottom);
  if (dx || dy) pan(dx, dy);
}

function watchPane() {
  const element = pane();
  const pointers = new Map();
  let moved = 0;
  const at = (event) => {
    const room = element.getBoundingClientRect();
    return [event.clientX - room.left, event.clientY - room.top];
  };
  element.addEventListener("wheel", (event) => {
    const zooms = event.ctrlKey || event.metaKey;
    if (live && sentenceShown() && !zooms) {
      if (scrollStack(event.deltaY)) event.preventDefault();
      place();
      return;
    }
    if (view.fitted && !zooms) return;  // nothing to pan: the page scrolls
    event.preventDefault();
    if (zooms) zoom(Math.exp(-event.deltaY * 0.008), at(event));
    else pan(-event.deltaX, -event.deltaY);
  }, { passive: false });
  element.addEventListener("pointerdown", (event) => {
    pointers.set(event.pointerId, at(event));
    if (pointers.size === 1) moved = 0;
  });
  element.addEventListener("pointermove", (event) => {
    if (!pointers.has(event.pointerId)) return;
    const before = [...pointers.values()];
    const old = pointers.get(event.pointerId);
    pointers.set(event.pointerId, at(event));
    const now = [...pointers.values()];
    if (now.length === 2) {
      const apart = ([a, b]) => Math.hypot(a[0] - b[0], a[1] - b[1]);
      const middle = [(now[0][0] + now[1][0]) / 2, (now[0][1] + now[1][1]) / 2];
      zoom(apart(now) / (apart(before) || 1), middle);
      moved = 99;
      return;
    }
    const [dx, dy] = [now[0][0] - old[0], now[0][1] - old[1]];
    moved += Math.abs(dx) + Math.abs(dy);
    if (moved > 5) {
      if (!element.hasPointerCapture(event.pointerId)) element.setPointerCapture(event.pointerId);
      element.classList.add("dragged");
      pan(dx, dy);
    }
  });
  const end = (event) => {
    pointers.delete(event.pointerId);
    element.classList.remove("dragged");
  };
  element.addEventListener("pointerup", end);
  element.addEventListener("pointercancel", end);
  // what ends a drag chooses nothing
  element.addEventListener("click", (event) => {
    if (moved > 5) event.stopPropagation();
    moved = 0;
  }, true);
  new ResizeObserver(() => (view.fitted || (live && sentenceShown()) ? fitAll() : place())).observe(element);
}
