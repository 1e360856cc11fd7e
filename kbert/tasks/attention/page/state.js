// What is shown; a view draws itself anew when something changes that it depends on.
const state = {
  layer: facts.start.layer, // places, not numbers
  head: facts.start.head,
  special: facts.start.special,
  direction: "", // "01": from sentence A to B
  drawn: new Set(), // heads whose lines are drawn
  token: null, // { side: "from" | "to", place }: looked at
  held: false, // whether it stays
};
const views = [];

function change(changes) {
  Object.assign(state, changes);
  if ("layer" in changes || "head" in changes) {
    if (!state.drawn.has(state.head)) state.drawn = new Set([state.head]);
    keepInAddress();
  }
  const names = Object.keys(changes);
  for (const view of views) {
    if (view.needs.some((name) => names.includes(name))) view.draw(names);
  }
}

const chosen = () => numberOf(state.layer, state.head);
const whereText = () => `layer ${layers[state.layer]}, head ${heads[state.head]}`;

// Places of the tokens on one side: "from", those that attend, or "to".
function shown(side) {
  const sentence = state.direction[side === "from" ? 0 : 1];
  const found = [];
  for (let n = 0; n < size; n++) {
    if (!state.special && isSpecial.has(n)) continue;
    if (sentence !== undefined && facts.segments[n] !== Number(sentence)) continue;
    found.push(n);
  }
  return found;
}

// A file's address keeps layer and head; a frame in a notebook has none of its own.
function keepInAddress() {
  if (location.protocol === "about:") return;
  try {
    history.replaceState(null, "", `#layer=${layers[state.layer]}&head=${heads[state.head]}`);
  } catch {
    // a browser that allows no change of it
  }
}

function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const place = (numbers, name) => numbers.indexOf(Number(asked.get(name)));
  const found = { layer: place(layers, "layer"), head: place(heads, "head") };
  if (found.layer >= 0) state.layer = found.layer;
  if (found.head >= 0) state.head = found.head;
}

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

// Arrow keys go through the children of a group, of which one is in the order of Tab.
function roving(group, items, columns = 1) {
  const now = () => items().indexOf(document.activeElement);
  group.addEventListener("focusin", (event) => {
    if (!items().includes(event.target)) return;
    for (const item of items()) item.tabIndex = item === event.target ? 0 : -1;
  });
  group.addEventListener("keydown", (event) => {
    const all = items();
    const moves = {
      ArrowDown: columns, ArrowUp: -columns, ArrowRight: columns > 1 ? 1 : 0, ArrowLeft: columns > 1 ? -1 : 0,
      PageDown: 10 * columns, PageUp: -10 * columns, Home: -all.length, End: all.length,
    };
    if (!moves[event.key] || now() < 0) return;
    event.preventDefault();
    let place = now() + moves[event.key];
    if (Math.abs(moves[event.key]) === columns && (place < 0 || place >= all.length)) return;
    place = Math.min(all.length - 1, Math.max(0, place));
    all[place].focus();
  });
}

const two = (value) => value.toFixed(2);
const weightText = (value) => (value >= 0.01 || value === 0 ? two(value) : value.toPrecision(1));
