// The strips as pictures on one canvas over the figure, and the wave that re-colours them from bottom to top.

const WAVE = 150;  // milliseconds, from the tokens to the outputs
const FADE = 60;   // of them, for each strip

const heat = {
  pictures: new Map(),  // by box: {now, before, rows, columns}, canvases with a pixel a value
  columns: [],          // of the tokens, from the strips' left edge
  began: 0,             // when the wave began; 0: there is none
  frame: 0,
};

const isStill = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// Makes the pictures of a trace; what was there before fades into them.
function paintStrips(moves) {
  const { trace, frozen } = running;
  if (!trace || !sentenceShown()) heat.pictures.clear();
  else for (const { box } of stack.strips) paintStrip(box, stripOf(box, trace, frozen), trace.tokens.length);
  if (!moves || isStill() || document.hidden) {
    heat.began = 0;
    drawHeat();
    return;
  }
  heat.began = performance.now();
  cancelAnimationFrame(heat.frame);
  moveWave();
}

// Where the figure is laid out anew, its strips stay as they are, and a wave goes on.
function paintMissingStrips() {
  const { trace, frozen } = running;
  const missing = stack.strips.filter(({ box }) => !heat.pictures.has(box));
  for (const { box } of missing) paintStrip(box, stripOf(box, trace, frozen), trace.tokens.length);
  drawHeat();
}

function moveWave() {
  const ended = performance.now() - heat.began >= WAVE;
  if (ended) heat.began = 0;
  drawHeat();
  if (!ended) heat.frame = requestAnimationFrame(moveWave);
}

function paintStrip(box, strip, columns) {
  const old = heat.pictures.get(box);
  if (!strip) {
    heat.pictures.delete(box);
    return;
  }
  const canvas = old?.before || document.createElement("canvas");
  Object.assign(canvas, { width: columns, height: strip.rows });
  const context = canvas.getContext("2d");
  const image = context.createImageData(columns, strip.rows);
  paintPixels(strip.values, image.data);
  context.putImageData(image, 0, 0);
  heat.pictures.set(box, { now: canvas, before: old?.now, rows: strip.rows, columns });
}

// Draws every strip where the figure stands now, at the screen's own pixels.
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
  if (!running.trace || !sentenceShown()) return;
  context.imageSmoothingEnabled = false;
  context.setTransform(dots * view.scale, 0, 0, dots * view.scale, dots * view.x, dots * view.y);
  const runs = joinColumns(heat.columns);
  for (const strip of stack.strips) drawStrip(context, strip, runs);
  drawLitColumns(context);
  drawThumb(context, room, dots);
}

// Where the figure is scrolled to, at the pane's right edge.
function drawThumb(context, room, dots) {
  const high = size().height * view.scale;
  if (high <= room.height + 1) return;
  context.setTransform(dots, 0, 0, dots, 0, 0);
  context.globalAlpha = 0.35;
  context.fillStyle = heat.ink;
  context.fillRect(room.width - 4, (-view.y / high) * room.height, 3, (room.height / high) * room.height);
  context.globalAlpha = 1;
}

function drawStrip(context, strip, runs) {
  const picture = heat.pictures.get(strip.box);
  if (!picture) return;
  const part = partOfWave(strip);
  const draw = (canvas, alpha) => {
    if (!canvas || alpha <= 0) return;
    context.globalAlpha = alpha;
    for (const { first, count, x, width } of runs) {
      if (first < canvas.width) {
        context.drawImage(canvas, first, 0, Math.min(count, canvas.width - first), canvas.height,
          strip.x + x, strip.y, width * Math.min(1, (canvas.width - first) / count), strip.height);
      }
    }
    context.globalAlpha = 1;
  };
  if (part < 1) draw(picture.before, 1);
  draw(picture.now, part);
  if (state.colours === "difference" && running.frozen) drawNew(context, strip);
  drawLines(context, strip, picture);
}

// Stripes where a token has no counterpart in the frozen sentence.
function drawNew(context, strip) {
  const { matched } = running.frozen;
  context.save();
  context.beginPath();
  heat.columns.forEach(({ x, width }, place) => matched[place] < 0 && context.rect(strip.x + x, strip.y, width, strip.height));
  context.clip();
  context.strokeStyle = heat.ink;
  context.globalAlpha = 0.35;
  context.beginPath();
  for (let x = -strip.height; x < stack.wide; x += 7) {
    context.moveTo(strip.x + x, strip.y + strip.height);
    context.lineTo(strip.x + x + strip.height, strip.y);
  }
  context.stroke();
  context.restore();
}

// How far the wave is in a strip, 0 to 1: it begins at the bottom.
function partOfWave(strip) {
  if (!heat.began) return 1;
  const above = 1 - strip.y / (stack.bottom || 1);
  const passed = performance.now() - heat.began - above * (WAVE - FADE);
  return Math.min(1, Math.max(0, passed / FADE));
}

// Thin lines between columns that are wide enough, and between blocks or heads.
function drawLines(context, strip, picture) {
  context.fillStyle = heat.paper;
  for (const { x, width } of heat.columns) {
    if (width >= 7) context.fillRect(strip.x + x + width - 0.5, strip.y, 1, strip.height);
  }
  const type = rowType(strip.box, current());
  if (type !== "blocks" && type !== "heads") return;
  const [first, last] = type === "blocks" ? blocksOf(strip.box) : [1, current().A];
  const high = strip.height / (last - first + 1);
  for (let y = high; high >= 5 && y < strip.height - 1; y += high) {
    context.fillRect(strip.x, strip.y + y - 0.5, stack.wide, 1);
  }
}

// The lit column through all boxes: the one that is pointed at, or kept.
function drawLitColumns(context) {
  const column = heat.columns[litToken()];
  if (!column) return;
  const x = stack.left + column.x;
  context.fillStyle = heat.accent;
  context.globalAlpha = 0.1;
  context.fillRect(x, 0, column.width, stack.bottom);
  context.globalAlpha = 1;
  context.strokeStyle = heat.ink;
  context.lineWidth = 1.5;
  for (const { box, y, height } of stack.strips) {
    if (heat.pictures.has(box)) context.strokeRect(x, y, Math.max(1, column.width - 0.5), height);
  }
}

const TOKEN_ROOM = 92;

// On paper the strips are part of the figure.
function printStrips(begins) {
  drawing().querySelectorAll(".printed").forEach((element) => element.remove());
  const [x, y, width, height] = drawing().getAttribute("viewBox").split(" ").map(Number);
  const below = begins ? TOKEN_ROOM : -TOKEN_ROOM;
  const images = begins ? stripImages() : [];
  if (!running.trace || !sentenceShown()) return;
  drawing().append(...images);
  drawing().setAttribute("viewBox", `${x} ${y} ${width} ${height + below}`);
}

// The strips and the tokens as elements of SVG, for the downloads and for print.
function stripImages() {
  if (!running.trace || !sentenceShown()) return [];
  const images = stack.strips.filter(({ box }) => heat.pictures.has(box)).flatMap((strip) => {
    const { now } = heat.pictures.get(strip.box);
    return joinColumns(heat.columns).map((run) => imageOf(now, run, strip));
  });
  const names = heat.columns.map(({ x, width }, place) => s("text", {
    transform: `translate(${stack.left + x + width / 2 + 4} ${stack.bottom + 2}) rotate(-90)`,
    "font-family": "sans-serif", "font-size": Math.min(11, width), "text-anchor": "end", fill: heat.ink, class: "printed",
  }, running.trace.tokens[place].text));
  return [...images, ...names];
}

function imageOf(picture, { first, count, x, width }, strip) {
  const part = h("canvas", { width: count, height: picture.height });
  part.getContext("2d").drawImage(picture, -first, 0);
  return s("image", {
    class: "printed", x: strip.x + x, y: strip.y, width, height: strip.height, href: part.toDataURL(),
    preserveAspectRatio: "none", style: "image-rendering: pixelated",
  });
}

// What the drawing needs of the styles; read when the theme changes, not at each frame.
function readHeatColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["paper", "ink", "accent"]) heat[name] = style.getPropertyValue(`--${name}`).trim();
}
