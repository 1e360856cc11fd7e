// The strips as pictures on a canvas over the figure, and the wave that re-colours them upwards.

const WAVE = 150;  // milliseconds, from the tokens to the outputs
const FADE = 60;   // of them, for each strip

const heat = {
  pictures: new Map(),  // by box: {now, before}, canvases with a pixel a value
  columns: [],          // of the tokens, from the strips' left edge
  began: 0,             // when the wave began; 0: there is none
  frame: 0,
};

const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function paintStrips(moves) {
  if (!traceShown()) heat.pictures.clear();
  else stack.strips.forEach(paintStrip);
  heat.began = moves && !isStill() && !document.hidden ? performance.now() : 0;
  cancelAnimationFrame(heat.frame);
  moveWave();
}

// Where the figure is laid out anew, its strips stay as they are, and a wave goes on.
function paintMissingStrips() {
  stack.strips.filter(({ box }) => !heat.pictures.has(box)).forEach(paintStrip);
  drawHeat();
}

function moveWave() {
  if (performance.now() - heat.began >= WAVE) heat.began = 0;
  drawHeat();
  if (heat.began) heat.frame = requestAnimationFrame(moveWave);
}

function paintStrip({ box }) {
  const { trace, frozen } = running;
  const strip = stripOf(box, trace, frozen);
  const { now = null, before = null } = heat.pictures.get(box) || {};
  if (!strip) {
    heat.pictures.delete(box);
    return;
  }
  const canvas = before || document.createElement("canvas");
  paintHeat(canvas, strip.values, trace.tokens.length);
  heat.pictures.set(box, { now: canvas, before: now });
}

function drawHeat() {
  const canvas = $("heat");
  if (!canvas) return;
  const room = pane().getBoundingClientRect();
  const dots = devicePixelRatio || 1;
  const [width, height] = [Math.round(room.width * dots), Math.round(room.height * dots)];
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.clearRect(0, 0, width, height);
  if (!traceShown()) return;
  const scale = dots * view.scale;
  context.setTransform(scale, 0, 0, scale, dots * view.x, dots * view.y);
  drawStrips(context);
  drawLitColumn(context);
  drawThumb(context, room, dots);
}

function drawStrips(context) {
  const runs = joinColumns(heat.columns);
  context.imageSmoothingEnabled = false;
  for (const strip of stack.strips) {
    const picture = heat.pictures.get(strip.box);
    if (!picture) continue;
    const part = partOfWave(strip);
    if (part < 1 && picture.before) drawPicture(context, strip, picture.before, runs);
    context.globalAlpha = part;
    drawPicture(context, strip, picture.now, runs);
    context.globalAlpha = 1;
    drawLines(context, strip);
  }
}

function drawPicture(context, strip, canvas, runs) {
  for (const { first, count, x, width } of runs) {
    const drawn = Math.min(count, canvas.width - first);  // the sentence before may be shorter
    if (drawn > 0) {
      context.drawImage(canvas, first, 0, drawn, canvas.height,
        strip.x + x, strip.y, (width * drawn) / count, strip.height);
    }
  }
}

function partOfWave(strip) {
  if (!heat.began) return 1;
  const above = 1 - strip.y / (stack.bottom || 1);
  const passed = performance.now() - heat.began - above * (WAVE - FADE);
  return Math.min(1, Math.max(0, passed / FADE));
}

function drawLines(context, strip) {
  for (const { x, width } of heat.columns) {
    if (width >= 7) fillBox(context, "paper", 1, strip.x + x + width - 0.5, strip.y, 1, strip.height);
  }
  const rows = rowsToPick(strip.box).length;
  const high = strip.height / rows;
  for (let y = high; high >= 5 && y < strip.height - 1; y += high) {
    fillBox(context, "paper", 1, strip.x, strip.y + y - 0.5, stack.wide, 1);
  }
}

function fillBox(context, shade, alpha, ...box) {
  Object.assign(context, { fillStyle: shades[shade], globalAlpha: alpha });
  context.fillRect(...box);
  context.globalAlpha = 1;
}

function drawLitColumn(context) {
  const column = heat.columns[litToken()];
  if (!column) return;
  const x = stack.left + column.x;
  fillBox(context, "accent", 0.1, x, 0, column.width, stack.bottom);
  Object.assign(context, { strokeStyle: shades.ink, lineWidth: 1.5 });
  for (const { box, y, height } of stack.strips) {
    if (heat.pictures.has(box)) context.strokeRect(x, y, Math.max(1, column.width - 0.5), height);
  }
}

// Where the figure is scrolled to, at the pane's right edge.
function drawThumb(context, room, dots) {
  const high = size().height * view.scale;
  if (high <= room.height + 1) return;
  const [top, length] = [-view.y, room.height].map((part) => (part / high) * room.height);
  context.setTransform(dots, 0, 0, dots, 0, 0);
  fillBox(context, "ink", 0.35, room.width - 4, top, 3, length);
}

const TOKEN_ROOM = 92;

// Puts the strips and the tokens into the figure for print, or into its copy to download.
function addStrips(svg) {
  if (!traceShown()) return;
  const { x, y, width, height } = svg.viewBox.baseVal;
  svg.append(...stripImages());
  svg.setAttribute("viewBox", `${x} ${y} ${width} ${height + TOKEN_ROOM}`);
}

function stripImages() {
  const sharp = 2;  // pixels for a point
  const canvas = h("canvas", { width: sharp * stack.width, height: sharp * stack.bottom });
  const context = canvas.getContext("2d");
  context.scale(sharp, sharp);
  drawStrips(context);
  const picture = s("image", {
    width: stack.width, height: stack.bottom, href: canvas.toDataURL(),
  });
  const names = heat.columns.map(({ x, width }, place) => s("text", {
    transform: `translate(${stack.left + x + width / 2 + 4} ${stack.bottom + 2}) rotate(-90)`,
    "font-family": "sans-serif", "font-size": Math.min(11, width), "text-anchor": "end",
    fill: shades.ink,
  }, running.trace.tokens[place].text));
  return [picture, ...names];
}
