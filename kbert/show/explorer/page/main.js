// What is done when something is chosen, typed, pressed; and the start.

// Draws anew what hangs on a change: of "values", of what is open and chosen ("layer"), or all.
function render(change = "all") {
  settle();
  const focused = document.activeElement?.closest?.("#drawing")
    ? document.activeElement.dataset.id : null;
  const reading = Boolean(document.activeElement?.closest?.("#panel > *"));
  const key = drawing().dataset.key;
  drawFigure(drawing());
  const now = `${figureNow(current()).size} ${state.open} ${state.attention}`;
  drawing().dataset.key = now;
  rove(focused);
  renewPanel(reading);
  if (!generic && change !== "layer") {
    drawFields();
    drawTotals();
  }
  if (!generic) {
    const { total } = count(current());
    $("total").textContent = UNITS[state.measure].alone(total[state.measure]);
    $("total-unit").textContent = UNITS[state.measure].unit;
    $("subtitle").textContent = `${modelName()} · head ${DATA.head}`;
    document.title = `${modelName()}: ${DATA.family} with head ${DATA.head}, ${grouped(total.params)} parameters`;
  }
  drawTable();
  drawScale();
  drawList();
  drawGuide();
  if (live) renderSentence();
  if (change !== "url") keepInUrl(change === "layer");
  if (key !== now && view.fitted) fitAll();
  else place();
}

// Another choice is read from its title on; who followed a link in the panel stays there.
function renewPanel(reading) {
  const panel = $("panel");
  const other = panel.dataset.of !== state.chosen;
  drawPanel();
  panel.dataset.of = state.chosen;
  if (other) panel.scrollTop = 0;
  if (reading) $("panel-title").focus({ preventScroll: true });
}

function go(id) {
  const opened = state.open;
  const attention = state.attention;
  choose(id);
  const fresh = state.open !== opened || state.attention !== attention;
  render("layer");
  if (id && !(live && besideStage())) openSheet("panel");
  if (fresh && state.open) bring(state.attention && !attention ? ".f-attention" : ".f-block", true);
  else bring(`[data-layer="${CSS.escape(boxNow(id))}"]`, false);
  announce(id ? `${id} is chosen` : "Nothing is chosen");
}

const ACTS = {
  open: (n) => {
    state.open = n;
    state.attention = false;
    if (!state.chosen.startsWith(`Encoder-${n}-`)) state.chosen = ENCODER;
    render("layer");
    bring(".f-block", true);
    announce(`Encoder block ${n} is open`);
  },
  close: () => {
    state.open = 0;
    state.attention = false;
    if (state.chosen.startsWith("Encoder-")) state.chosen = ENCODER;
    view.fitted = true;
    render("layer");
  },
  attention: () => {
    state.attention = !state.attention;
    state.chosen = state.chosen.replace(/\/.*$/, "");
    if (!state.open) state.open = layerOf(state.chosen, current())?.n || 1;
    render("layer");
    bring(state.attention ? ".f-attention" : ".f-block", true);
  },
};

const act = (name, value) => ACTS[name](value);

function watchFigure() {
  const svg = drawing();
  svg.addEventListener("click", (event) => {
    const head = event.target.closest("[data-head]");
    const stripe = event.target.closest("[data-open]");
    const other = event.target.closest("[data-act]");
    const box = event.target.closest("[data-id]");
    if (head) go(head.dataset.head);
    else if (stripe) act("open", Number(stripe.dataset.open));
    else if (other) act(other.dataset.act);
    else if (box) chooseBox(box.dataset.id);
  });
  svg.addEventListener("dblclick", (event) => {
    const box = event.target.closest("[data-id]");
    if (!generic && box && layerOf(box.dataset.id, current())?.template === NAMES.attention) act("attention");
  });
  svg.addEventListener("pointerover", (event) => light(svg, event.target.closest("[data-layer]")?.dataset.layer));
  svg.addEventListener("pointerleave", () => light(svg));
  // not on the SVG: with such a listener it would be a stop of Tab itself
  pane().addEventListener("focusin", (event) => light(svg, event.target.closest("[data-layer]")?.dataset.layer));
}

// A box of several blocks opens the one nearest to what is open, the encoder shows its panel.
function chooseBox(id) {
  if (id === "blocks-before") act("open", state.open - 1);
  else if (id === "blocks-after") act("open", state.open + 1);
  else go(id);
}

// One box at a time can be reached by Tab; arrows go on from it.
function rove(id) {
  const all = [...drawing().querySelectorAll("[role=button]")];
  const own = all.find((one) => one.dataset.id && one.dataset.id === (id || boxNow(state.chosen))) ||
    all.find((one) => one.closest(".node"));
  if (own) own.setAttribute("tabindex", 0);
  if (own && id) own.focus({ preventScroll: true });
}

function towards(from, [dx, dy]) {
  const middle = (one) => {
    const box = one.getBoundingClientRect();
    return [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
  };
  const [x, y] = middle(from);
  let best = null;
  for (const one of drawing().querySelectorAll("[role=button]")) {
    const [a, b] = middle(one);
    const along = (a - x) * dx + (b - y) * dy;
    const aside = Math.abs((a - x) * dy) + Math.abs((b - y) * dx);
    const far = along + 2 * aside;
    if (one !== from && along > 2 && (!best || far < best.far)) best = { one, far };
  }
  return best?.one;
}

function figureKey(event) {
  const direction = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[event.key];
  const from = event.target.closest("[role=button]");
  if (direction && from) {
    const next = towards(from, direction);
    if (next) {
      from.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus({ preventScroll: true });
      keepInPane(next);
    }
    event.preventDefault();
  } else if ((event.key === "Enter" || event.key === " ") && from) {
    if (from.dataset.act) act(from.dataset.act);
    else if (from.dataset.id === state.chosen && layerOf(state.chosen, current() || {})?.template === NAMES.attention) act("attention");
    else chooseBox(from.dataset.id);
    event.preventDefault();
  }
}

function keepInPane(element) {
  const box = element.getBoundingClientRect();
  const room = pane().getBoundingClientRect();
  const over = (low, high, least, most) => Math.max(0, least + 12 - low) + Math.min(0, most - 12 - high);
  const [dx, dy] = [over(box.left, box.right, room.left, room.right), over(box.top, box.bottom, room.top, room.bottom)];
  if (dx || dy) pan(dx, dy);
}

function pageKey(event) {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "Escape") {
    if (closeSheet()) return;
    if (state.chosen) go("");
    else if (state.open) act("close");
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (live && scrubKey(event)) return;
  const keys = {
    "/": () => $("search").focus(), "+": () => zoom(1.25), "=": () => zoom(1.25), "-": () => zoom(0.8), 0: fitAll,
  };
  if (keys[event.key]) {
    keys[event.key]();
    event.preventDefault();
  }
}

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  $("theme").setAttribute("aria-pressed", String(name === "dark"));
  if (live) repaintHeat();
}

// The theme that the reader chose before, on any of these pages; null: none, or nothing is stored here.
function stored(theme) {
  try {
    if (theme) localStorage.setItem("kbert-theme", theme);
    return localStorage.getItem("kbert-theme");
  } catch {
    return null;
  }
}

function watchPage() {
  $("zoom-in").addEventListener("click", () => zoom(1.25));
  $("zoom-out").addEventListener("click", () => zoom(0.8));
  $("fit").addEventListener("click", fitAll);
  $("theme").addEventListener("click", () => {
    const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
    const theme = (document.documentElement.dataset.theme || system) === "dark" ? "light" : "dark";
    setTheme(theme);
    stored(theme);
  });
  $("table").addEventListener("toggle", () => {
    drawTable();
    if ($("table").open) $("table").scrollIntoView({ block: "start" });
  });
  document.querySelectorAll("[data-download]").forEach((one) => one.addEventListener("click", () => {
    DOWNLOADS[one.dataset.download]();
    $("downloads").open = false;
  }));
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#downloads")) $("downloads").open = false;
  });
  document.addEventListener("keydown", pageKey);
  drawing().addEventListener("keydown", figureKey);
  for (const name of ["hashchange", "popstate"]) {
    addEventListener(name, () => {
      if (location.hash === toFragment()) return;
      follow();
    });
  }
  let theme;
  addEventListener("beforeprint", () => {
    theme = document.documentElement.dataset.theme;
    setTheme("light");
    $("table").open = true;
    drawTable();
    if (live) printStrips(true);
  });
  addEventListener("afterprint", () => {
    if (theme) setTheme(theme);
    else delete document.documentElement.dataset.theme;
    if (live) printStrips(false);
  });
  if (generic) return;
  document.querySelectorAll("[name=measure]").forEach((one) => one.addEventListener("change", () => {
    state.measure = one.value;
    render("layer");
  }));
  $("compare").addEventListener("click", toggleCompare);
  $("reset").addEventListener("click", resetFields);
  $("copy-config").addEventListener("click", (event) =>
    copyText(configJson(current()), `${DATA.configFile} is copied.`, event.currentTarget));
  $("copy-config").textContent = `Copy ${DATA.configFile}`;
  document.querySelector("[data-download=config]").textContent = DATA.configFile;
}

// Goes where the address says.
function follow() {
  fromFragment(location.hash);
  if (!generic) buildFields();
  document.querySelectorAll("[name=measure]").forEach((one) => (one.checked = one.value === state.measure));
  render("url");
  if (live) followSentence();
  if (state.chosen && !state.chapter && !(live && besideStage())) openSheet("panel", false);
  if (state.chosen && state.open) bring(".f-block", true);
  if (generic && state.chosen && view.scale < 0.7) zoom(0.9 / view.scale);
  if (state.chosen) bring(`[data-layer="${CSS.escape(boxNow(state.chosen))}"]`, false);
  if (state.chosen) bringRow(state.chosen);
}

document.documentElement.classList.toggle("generic", generic);
if (live) buildSentence();
if (generic) $("subtitle").textContent = DATA.origin;
if (["light", "dark"].includes(stored())) setTheme(stored());
watchPage();
watchPane();
watchFigure();
watchSearch();
watchSheets();
watchList();
watchScale();
watchGuide();
follow();
if (view.fitted) fitAll();
if (state.chosen) bringRow(state.chosen);
if (live) startModel();
document.fonts.ready.then(() => narrow(drawing()));  // the page's own font comes late
