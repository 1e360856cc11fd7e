// A head as lines between the tokens that ask, at the left, and those that are asked.

const FAINT_LINE = 0.02;  // a smaller weight has no line
const LINE_STEPS = 8;     // of strength

function attentionLines(view) {
  const { tokens, shown, token, head } = view;
  const own = s("g.own-lines", {});
  const strokes = s("svg.line-strokes", {
    viewBox: `0 0 100 ${shown.length}`, preserveAspectRatio: "none", "aria-hidden": "true",
  }, linesOfAll(view), own);
  const said = h("p.line-said", { role: "status" });
  const side = (name, chosen, choose) => h("div", { class: `line-side line-${name}`, role: "group", "aria-label": name },
    shown.map((n) => h("button", {
      type: "button", "data-key": `${name}-${n}`, "data-place": n, "aria-pressed": String(n === chosen),
      "aria-label": `${tokens[n].text}, token ${n + 1}`, onclick: () => choose(n),
    }, h("span", { class: isMarker(tokens[n]) ? "dim" : null }, tokens[n].text), h("i", {}))));
  const from = side("from", token, chooseToken);
  const to = side("to", view.column, (n) => {
    setAttention({ to: n });
    redrawStage();
  });
  const light = (row) => {
    const weights = headRow(view, row);
    own.replaceChildren(...linesOfOne(view, row, weights));
    shown.forEach((n, place) => {
      from.children[place].classList.toggle("lit", n === row);
      to.children[place].style.setProperty("--weight", weights[n].toFixed(3));
      to.children[place].lastChild.textContent = weights[n] >= 0.01 ? percent(weights[n]) : "";
    });
    said.textContent = sayRow(view, row, weights);
  };
  const follow = ({ target }) => {
    const place = target.closest("[data-place]")?.dataset.place;
    if (place) light(Number(place));
  };
  from.addEventListener("pointerover", follow);
  from.addEventListener("focusin", follow);
  from.addEventListener("pointerleave", () => light(token));
  light(token);
  return stageCard(`Who looks at whom in head ${head + 1}`, hideControl(tokens),
    h("div.line-box", { tabindex: 0, role: "region", "aria-label": "Lines between tokens" }, from, strokes, to), said);
}

const headRow = ({ probs, tokens }, row) => probs.subarray(row * tokens.length, (row + 1) * tokens.length);

const linePath = (from, to) => `M0 ${from + 0.5}C45 ${from + 0.5} 55 ${to + 0.5} 100 ${to + 0.5}`;

// All lines, a path for each step of strength.
function linesOfAll(view) {
  const paths = Array.from({ length: LINE_STEPS + 1 }, () => "");
  view.shown.forEach((row, y) => {
    const weights = headRow(view, row);
    view.shown.forEach((column, end) => {
      if (weights[column] < FAINT_LINE) return;
      paths[Math.ceil(Math.sqrt(weights[column]) * LINE_STEPS)] += linePath(y, end);
    });
  });
  return s("g.all-lines", paths.map((d, step) => (d
    ? s("path", { d, "stroke-opacity": (0.4 * step) / LINE_STEPS, "stroke-width": 0.8 + 0.2 * step }) : null)));
}

function linesOfOne({ shown }, row, weights) {
  return shown.map((column, end) => [weights[column], linePath(shown.indexOf(row), end)])
    .filter(([weight]) => weight >= FAINT_LINE / 4)
    .map(([weight, d]) => s("path", { d, "stroke-opacity": 0.25 + 0.75 * Math.sqrt(weight), "stroke-width": 1 + 4 * weight }));
}

// Where a token's attention goes, and how much of it tokens hold that are not shown.
function sayRow({ tokens, shown }, row, weights) {
  const most = largestIndices(shown.map((n) => weights[n]), 3).map((place) => shown[place]);
  const hidden = Math.max(0, 1 - shown.reduce((all, n) => all + weights[n], 0));
  return `${quoted(tokens[row])} → ${most.map((n) => `${tokens[n].text} ${percent(weights[n])}`).join(" · ")}` +
    `${shown.length < tokens.length ? `; hidden tokens hold ${percent(hidden)}` : ""}`;
}
