// Head view: lines between the tokens that attend and those that are attended to.
const NOTHING = "Nothing is left to show: no token of that sentence is drawn.";
const LEVELS = 10; // of opacity, while no token is looked at
const FAINTEST = 0.004; // of the weights that are read out for a token
const placesOf = { from: [], to: [] };
const rowsOf = { from: new Map(), to: new Map() }; // a token's place on the page
const least = () => (Number($("least").value) / 100) ** 2;

function fillLines() {
  for (const [place, number] of heads.entries()) {
    const chip = element("button", { type: "button", className: "head", textContent: number });
    chip.style.setProperty("--hue", hue(place));
    chip.setAttribute("aria-label", `Head ${number}`);
    chip.addEventListener("click", () => {
      const drawn = new Set(state.drawn);
      drawn.delete(place) || drawn.add(place);
      change({ drawn });
    });
    $("chips").append(chip);
  }
  const all = element("button", { type: "button", textContent: "all" });
  all.addEventListener("click", () => change({ drawn: new Set(heads.keys()) }));
  const one = element("button", { type: "button", textContent: "one" });
  one.setAttribute("aria-label", "Only the chosen head");
  one.addEventListener("click", () => change({ drawn: new Set([state.head]) }));
  if (heads.length > 1) $("chips").append(all, one);
  $("least").value = Math.round(100 * Math.sqrt(2 / Math.max(size, 16))); // twice the even weight
  $("least").addEventListener("input", () => change({ least: true }));
  if (size > 60) $("lines").style.setProperty("--row", "1.3rem");
  for (const name of ["from", "to"]) listen(name);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") change({ token: null, held: false });
  });
}

function listen(name) {
  const box = $(name);
  roving(box, () => [...box.children]);
  const look = (event) => {
    const button = event.target.closest("button");
    if (button && !state.held) change({ token: { side: name, place: Number(button.dataset.place) } });
  };
  box.addEventListener("pointerover", look);
  box.addEventListener("focusin", look);
  box.addEventListener("pointerleave", () => !state.held && change({ token: null }));
  box.addEventListener("focusout", () => !state.held && change({ token: null }));
  box.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const place = Number(button.dataset.place);
    const same = state.held && state.token.side === name && state.token.place === place;
    change({ token: { side: name, place }, held: !same });
  });
}

function fillSide(name) {
  placesOf[name] = shown(name);
  rowsOf[name] = new Map(placesOf[name].map((place, row) => [place, row]));
  const kind = (n) => (isSpecial.has(n) ? "special" : `s${facts.segments[n]}`);
  const buttons = placesOf[name].map((n, row) => {
    const button = element("button", { type: "button", tabIndex: row ? -1 : 0, className: kind(n) },
      element("span", { textContent: tokens[n] }), element("i"));
    button.dataset.place = n;
    return button;
  });
  $(name).replaceChildren(...buttons);
}

const MANY = 120; // tokens, whose lines are straight: curves take ten times as long to draw
const curve = (from, to) => size > MANY ? `M0 ${from}L100 ${to}` : `M0 ${from}C45 ${from} 55 ${to} 100 ${to}`;
// Where a head's lines run in a row, from 0 to 1: side by side, so that each keeps its colour.
const lane = (head) => ([...state.drawn].sort((a, b) => a - b).indexOf(head) + 1) / (state.drawn.size + 1);
function stroke(shape, head, opacity, width) {
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", shape);
  path.style.stroke = hue(head);
  path.style.strokeOpacity = opacity;
  path.style.strokeWidth = `${width}px`;
  return path;
}

// All lines from the smallest weight on: one path for each head and level of opacity.
function strokesOfAll() {
  const found = [];
  for (const head of state.drawn) {
    const shapes = Array.from({ length: LEVELS + 1 }, () => []);
    const shift = lane(head);
    for (const [place, row] of rowsOf.from) {
      for (const [column, weight] of rowOf(numberOf(state.layer, head), place)) {
        if (weight < least() || !rowsOf.to.has(column)) continue;
        shapes[Math.ceil(Math.sqrt(weight) * LEVELS)].push(curve(row + shift, rowsOf.to.get(column) + shift));
      }
    }
    shapes.forEach((some, level) => {
      // where there are many they are fainter: what lies behind shows through
      const opacity = (level / LEVELS / state.drawn.size ** 0.2) * (size > MANY ? 0.6 : 1);
      if (some.length) found.push(stroke(some.join(""), head, opacity, 0.8 + 2.2 * opacity ** 2));
    });
  }
  return found;
}

// [place on the other side, weight] of the token that is looked at, in one head.
function othersOf({ side: name, place }, head) {
  const number = numberOf(state.layer, head);
  const found = name === "from"
    ? rowOf(number, place)
    : placesOf.from.map((row) => [row, weightOf(number, row, place) || 0]);
  const others = rowsOf[name === "from" ? "to" : "from"];
  return found.filter(([other]) => others.has(other));
}

function strokesOfOne(token) {
  const found = [];
  for (const head of state.drawn) {
    const shift = lane(head);
    for (const [other, weight] of othersOf(token, head)) {
      if (weight < least()) continue;
      const [from, to] = token.side === "from" ? [token.place, other] : [other, token.place];
      const shape = curve(rowsOf.from.get(from) + shift, rowsOf.to.get(to) + shift);
      found.push(stroke(shape, head, 0.25 + 0.75 * Math.sqrt(weight), 1 + 4 * weight));
    }
  }
  return found;
}

// The mean over the drawn heads.
function meansOf(token) {
  const sums = new Map();
  for (const head of state.drawn) {
    for (const [other, weight] of othersOf(token, head)) {
      sums.set(other, (sums.get(other) || 0) + weight / state.drawn.size);
    }
  }
  return byWeight([...sums]);
}

function drawStrokes() {
  const rows = Math.max(placesOf.from.length, placesOf.to.length, 1);
  $("strokes").setAttribute("viewBox", `0 0 100 ${rows}`);
  $("all-strokes").replaceChildren(...strokesOfAll());
}

function drawOwnStrokes() {
  const token = lookedAt();
  $("all-strokes").style.display = token ? "none" : "";
  $("own-strokes").replaceChildren(...(token ? strokesOfOne(token) : []));
}

const lookedAt = () => (state.token && rowsOf[state.token.side].has(state.token.place) ? state.token : null);

function drawMarks() {
  for (const marked of $("lines").querySelectorAll(".lit, .held")) {
    marked.classList.remove("lit", "held");
    marked.style.background = "";
    marked.lastChild.textContent = "";
  }
  const token = lookedAt();
  for (const button of $("lines").querySelectorAll("[aria-pressed]")) button.removeAttribute("aria-pressed");
  if (!token) {
    const enough = placesOf.from.length && placesOf.to.length;
    const hint = "Point at a token, or go through them with Tab and the arrow keys; a click holds it, Escape lets it go.";
    $("line-readout").textContent = enough ? hint : NOTHING;
    return;
  }
  const own = $(token.side).children[rowsOf[token.side].get(token.place)];
  own.classList.add(state.held ? "held" : "lit");
  if (state.held) own.setAttribute("aria-pressed", "true");
  const means = meansOf(token);
  const other = token.side === "from" ? "to" : "from";
  for (const [place, weight] of means) {
    if (weight < 0.01) continue;
    const button = $(other).children[rowsOf[other].get(place)];
    button.classList.add("lit");
    button.style.background = `color-mix(in srgb, var(--accent) ${Math.round(45 * Math.sqrt(weight))}%, transparent)`;
    button.lastChild.textContent = two(weight);
  }
  readOut(token, means);
}

function readOut(token, means) {
  const drawn = [...state.drawn].map((head) => heads[head]).sort((a, b) => a - b);
  const some = means.filter(([, weight]) => weight >= FAINTEST).slice(0, 6);
  const of = drawn.length === 1 ? `head ${drawn[0]}` : `mean of ${drawn.length} heads`;
  const what = token.side === "from" ? " attends to " : " is attended to by ";
  const list = some.map(([place, weight]) => `${tokens[place]} ${weightText(weight)}`).join(" · ") || "none of those shown";
  $("line-readout").replaceChildren(element("b", { textContent: tokens[token.place] }), what + list, ` (layer ${layers[state.layer]}, ${of})`);
}

views.push({
  needs: ["layer", "head", "special", "direction", "drawn", "least", "token"],
  draw(changes) {
    if (changes.some((name) => ["special", "direction"].includes(name))) ["from", "to"].forEach(fillSide);
    if (!changes.every((name) => ["token", "held"].includes(name))) {
      $("least-shown").textContent = weightText(least());
      [...$("chips").querySelectorAll(".head")].forEach((chip, head) => chip.setAttribute("aria-pressed", state.drawn.has(head)));
      drawStrokes();
    }
    drawOwnStrokes();
    drawMarks();
  },
});
