// What is done when something is chosen, typed, pressed; and the start.

// Draws anew what hangs on a change: of "values", of what is open and chosen ("layer"), or all.
function render(change = "all") {
  settle();
  const { activeElement } = document;
  const focused = activeElement?.closest?.("#drawing") ? activeElement.dataset.id : null;
  const reading = Boolean(activeElement?.closest?.("#panel > *"));
  const { dataset } = drawing();
  const before = dataset.key;
  drawFigure(drawing());
  dataset.key = `${figureNow(current()).size} ${state.open} ${state.attention}`;
  rove(focused);
  renewPanel(reading);
  if (!generic && live?.isSized !== false) drawSizes(change);
  drawTable();
  drawScale();
  if (!live) drawList();
  drawGuide();
  if (live) renderSentence();
  if (change !== "url") keepInUrl(change === "layer");
  if (before !== dataset.key && view.fitted) FIGURE.fit();
  else place();
}

// The header, and where sizes changed the fields and totals.
function drawSizes(change) {
  const { total } = countsNow();
  const { alone, unit } = UNITS[state.measure];
  const params = `${grouped(total.params)} parameters`;
  $("total").textContent = alone(total[state.measure]);
  $("total-unit").textContent = unit;
  $("subtitle").textContent = `${nameOf(current())} · head ${DATA.head}`;
  document.title = `${nameOf(current())}: ${DATA.family} with head ${DATA.head}, ${params}`;
  if (change === "layer") return;
  drawFields();
  drawTotals();
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
  const { open, attention } = state;
  choose(id);
  render("layer");
  if (id && !besideStage()) openSheet("panel");
  if (state.open && (state.open !== open || state.attention !== attention)) bringOpen();
  bringLayer();
  bringRow("nearest");
  announce(id ? `${id} is chosen` : "Nothing is chosen");
}

// Opens a block, closes it, or opens and closes its attention.
function act(name, block = 0) {
  if (name === "attention") {
    state.attention = !state.attention;
    state.chosen = state.chosen.replace(/\/.*$/, "");
    state.open ||= layerNow(state.chosen)?.n || 1;
  } else {
    const isInside = state.chosen.startsWith(block ? `Encoder-${block}-` : "Encoder-");
    Object.assign(state, { open: block, attention: false });
    if (isInside !== Boolean(block)) state.chosen = ENCODER;
    if (block) announce(`Encoder block ${block} is open`);
    else view.fitted = true;
  }
  render("layer");
  bringOpen();
}

function redrawFigure() {
  drawFigure(drawing());
  rove(null);
}

function watchFigure() {
  const svg = drawing();
  const onclick = (event) => {
    const { head, open, act: name, id } =
      event.target.closest("[data-head], [data-open], [data-act], [data-id]")?.dataset || {};
    if (head) go(head);
    else if (open) act("open", Number(open));
    else if (name) act(name);
    else if (id) chooseBox(id);
  };
  const point = (event) => light(svg, event.target.closest("[data-layer]")?.dataset.layer);
  fill(svg, { onclick, onpointerover: point, onpointerleave: () => light(svg) });
  // not on the SVG: with such a listener it would be a stop of Tab itself
  fill(pane(), { onfocusin: point, onkeydown: figureKey });
}

// A box of several blocks opens the one nearest to what is open, the encoder shows its panel.
function chooseBox(id) {
  if (id === "blocks-before") act("open", state.open - 1);
  else if (id === "blocks-after") act("open", state.open + 1);
  else go(id);
}

const boxButtons = () => [...drawing().querySelectorAll("[role=button]")];

// One box at a time can be reached by Tab; arrows go on from it.
function rove(id) {
  const all = boxButtons();
  const wanted = id || boxNow(state.chosen);
  const own = all.find((one) => one.dataset.id === wanted) || all.find((one) => one.closest(".node"));
  if (own) own.tabIndex = 0;
  if (id) own?.focus({ preventScroll: true });
}

// Arrows lead from box to box, from the inputs up; Enter chooses, and opens what is chosen.
function figureKey(event) {
  const from = event.target.closest("[role=button]");
  const step = { ArrowUp: 1, ArrowRight: 1, ArrowDown: -1, ArrowLeft: -1 }[event.key];
  if (!from || !(step || event.key === "Enter" || event.key === " ")) return;
  event.preventDefault();
  const all = boxButtons();
  const next = all[all.indexOf(from) + step];
  const { act: name, id } = from.dataset;
  if (next) {
    from.tabIndex = -1;
    next.tabIndex = 0;
    next.focus({ preventScroll: true });
    bringElement(next);
  } else if (!step) {
    const isOpener = id === state.chosen &&
      layerNow(id)?.template === NAMES.attention;
    if (name || isOpener) act(name || "attention");
    else chooseBox(id);
  }
}

function pageKey(event) {
  if (event.key === "Escape" && !closeSheet()) {
    if (state.chosen) go("");
    else if (state.open) act("close");
  }
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (live && scrubKey(event)) return;
  const keys = { "/": () => $("search").focus(), ...FIGURE.keys };
  if (!keys[event.key]) return;
  keys[event.key]();
  event.preventDefault();
}

const { dataset: page } = document.documentElement;

// Light or dark; undefined: as the reader's system is.
function setTheme(name) {
  if (name) page.theme = name;
  else delete page.theme;
  $("theme").ariaPressed = name === "dark";
  if (live) repaintHeat();
}

function toggleTheme() {
  const system = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  setTheme((page.theme || system) === "dark" ? "light" : "dark");
  storedTheme(page.theme);
}

// The theme that the reader chose before, on any of these pages; some frames store nothing.
function storedTheme(theme) {
  try {
    if (theme) localStorage.setItem("kbert-theme", theme);
    return localStorage.getItem("kbert-theme");
  } catch {
    return null;
  }
}

function watchPrint() {
  let theme;
  const onbeforeprint = () => {
    ({ theme } = page);
    setTheme("light");
    $("table").open = true;
    drawTable();
    if (live) addStrips(drawing());
  };
  const onafterprint = () => {
    setTheme(theme);
    redrawFigure();
  };
  Object.assign(window, { onbeforeprint, onafterprint });
}

function watchPage() {
  const clicks = { theme: toggleTheme, compare: toggleCompare, reset: resetFields };
  for (const [id, onclick] of Object.entries(clicks)) Object.assign($(id), { onclick });
  $("table").ontoggle = () => {
    drawTable();
    if ($("table").open) $("table").scrollIntoView({ block: "start" });
  };
  document.onclick = ({ target }) => {
    const { download } = target.dataset;
    if (download) DOWNLOADS[download]();
    if (download || !target.closest("#downloads")) $("downloads").open = false;
  };
  document.querySelector(".segments").onchange = (event) => {
    state.measure = event.target.value;
    render("layer");
  };
  document.onkeydown = pageKey;
  window.onpopstate = () => {  // also where a link changes what is behind the #
    if (location.hash !== toFragment()) follow();
  };
}

// Goes where the address says.
function follow() {
  fromFragment(location.hash || DATA.start || "");
  if (!generic) {
    buildFields();
    checkMeasure();
  }
  render("url");
  if (live) followSentence();
  if (state.chosen && !state.chapter && !besideStage()) openSheet("panel", false);
  showChosen();
}

if (generic) {
  document.documentElement.classList.add("generic");
  $("subtitle").textContent = DATA.origin;
} else {
  document.querySelector("[data-download=config]").textContent = DATA.configFile;
}
if (live) buildSentence();
if (storedTheme()) setTheme(storedTheme());
watchPage();
watchPrint();
watchPane();
watchFigure();
watchSearch();
watchSheets();
watchScale();
watchGuide();
follow();
if (view.fitted) FIGURE.fit();
showChosen();
if (live) startModel();
document.fonts.ready.then(() => narrow(drawing()));  // the page's own font comes late
