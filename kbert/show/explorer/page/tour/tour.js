// The guide, a band over the figure: three cards at the start, or a chapter of the tour.

let cards = false;  // whether the cards are shown
let drawnGuide = "";

function drawGuide() {
  if (generic) return;
  const guide = $("guide");
  const shown = state.chapter ? "chapter" : cards ? "cards" : "";
  guide.hidden = !shown;
  document.body.dataset.guide = shown;
  $("start").setAttribute("aria-expanded", String(Boolean(shown)));
  const key = shown && JSON.stringify([shown, state.chapter, current(), state.measure]);
  if (key === drawnGuide) return;

  drawnGuide = key;
  const inside = guide.contains(document.activeElement);
  guide.setAttribute("aria-label", shown === "chapter" ? "Tour" : "Start");
  guide.replaceChildren(...(shown === "chapter" ? chapterBand(state.chapter) : shown ? cardBand() : []));
  if (inside) $("guide-title")?.focus({ preventScroll: true });
}

// The three cards: a picture, what one will see, and the way there.
function cardBand() {
  const choices = [
    hasSentence() ? card("watch", "Watch a sentence go through", "Type, and see each layer compute: from words to an answer.", () => startTour()) : null,
    card("cost", "What does it cost?", "Parameters, FLOPs and bytes of every layer, for any size.", showCosts),
    card("compare", "Compare two models", `${comparison(current())}: totals, ratios, one scale.`, showComparison),
  ].filter(Boolean);
  const number = chapterNames().filter((name) => name !== CODA).length;
  return [
    h("div", { class: "cards" }, h("h2", { id: "guide-title", class: "hidden", tabindex: -1 }, "Start"), choices),
    h("div", { class: "guide-steps" },
      button(`Tour: ${inWords(number)} chapters`, () => startTour(), { class: "small primary", id: "tour" }),
      button("", closeGuide, { class: "close", "aria-label": "Close the cards" })),
  ];
}

// What is compared with what: base beside large, a model of another name beside a configuration.
function comparison(config) {
  const name = nameOf(config);
  const kind = Object.hasOwn(DATA.presets, name) ? "" : "the configuration ";
  return `${name} beside ${kind}${otherPreset(config)}`;
}

function card(name, title, text, act) {
  return h("button", { type: "button", class: "card", "data-card": name, onclick: act },
    pictureOf(name), h("span", { class: "card-title" }, title), h("span", { class: "dim" }, text));
}

// Small pictures in the figure's colours: [kind, x, y, width, height] of each bar.
const PICTURES = {
  watch: [["embedding", 4, 30, 8, 8], ["embedding", 16, 30, 8, 8], ["embedding", 28, 30, 8, 8], ["attention", 4, 17, 8, 8], ["attention", 16, 17, 8, 8],
    ["attention", 28, 17, 8, 8], ["feedforward", 4, 4, 8, 8], ["mlm", 16, 4, 8, 8], ["feedforward", 28, 4, 8, 8]],
  cost: [["embedding", 5, 24, 8, 14], ["attention", 16, 15, 8, 23], ["feedforward", 27, 4, 8, 34]],
  compare: [["embedding", 6, 32, 11, 6], ["attention", 6, 26, 11, 5], ["feedforward", 6, 18, 11, 7], ["embedding", 23, 31, 11, 7],
    ["attention", 23, 20, 11, 10], ["feedforward", 23, 3, 11, 16]],
};
function pictureOf(name) {
  return s("svg", { viewBox: "0 0 40 42", "aria-hidden": "true" },
    PICTURES[name].map(([kind, x, y, width, height]) => s("rect", { class: `k-${kind}`, x, y, width, height, rx: 2 })));
}

function chapterBand(name) {
  const facts = tourFacts();
  const chapter = CHAPTERS[name];
  const names = chapterNames();
  const number = names.indexOf(name) + 1;
  const last = names.filter((one) => one !== CODA).length;
  return [
    h("nav", { class: "chapters", "aria-label": "Chapters" }, h("ol", { style: `--columns: ${Math.ceil(names.length / 2)}` }, names.map((one, place) => h("li", {}, chapterLink(one, place, facts))))),
    h("div", { class: "chapter" },
      h("h2", { id: "guide-title", tabindex: -1 }, chapter.title(facts), h("span", { class: "dim" }, name === CODA ? " and then" : ` ${number} of ${last}`)),
      h("p", {}, chapter.text(facts).join(" "))),
    h("div", { class: "task" }, h("h3", {}, "Try it"), h("p", {}, taskOf(chapter, facts))),
    h("div", { class: "guide-steps" },
      step(names[number - 2], "‹", "Chapter before", "back"),
      number < names.length ? step(names[number], "Next ›", "Next chapter", "primary") : button("End", closeGuide, { class: "small primary" }),
      button("", closeGuide, { class: "close", "aria-label": "Leave the tour" })),
  ];
}

// A link to a chapter's state, which can be copied; in a notebook's frame links would leave the page.
function chapterLink(name, place, facts) {
  const title = CHAPTERS[name].title(facts);
  return h("a", {
    href: chapterFragment(name, facts), title, "aria-label": name === CODA ? `Then: ${title}` : `Chapter ${place + 1}: ${title}`,
    "aria-current": state.chapter === name ? "step" : null,
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      showChapter(name);
    },
  }, name === CODA ? "+" : String(place + 1));
}

function step(name, label, told, kind = "") {
  return button(label, () => showChapter(name), { class: `small ${kind}`, "aria-label": told, disabled: !name });
}

// Shows a chapter: its state in the figure, its title for the keyboard and for screen readers.
function showChapter(name) {
  closeSheet();
  Object.assign(state, chapterState(name, tourFacts()));
  document.querySelectorAll("[name=measure]").forEach((one) => (one.checked = one.value === state.measure));
  render("layer");
  if (live) followSentence();
  showChosen();
  $("guide-title").focus({ preventScroll: true });
}

const startTour = () => showChapter(chapterNames()[0]);

// Brings what is chosen into view: the open block or attention, then the box.
function showChosen() {
  if (!state.chosen) return fitAll();
  if (state.open) bring(state.attention ? ".f-attention" : ".f-block", true);
  bring(`[data-layer="${CSS.escape(boxNow(state.chosen))}"]`, false);
  bringRow(state.chosen);
}

function showCosts() {
  cards = false;
  state.measure = "flops";
  state.chosen = "";
  document.querySelectorAll("[name=measure]").forEach((one) => (one.checked = one.value === state.measure));
  render("layer");
  showSizes();
}

function showComparison() {
  cards = false;
  if (comparing()) render("layer");
  else toggleCompare();
  showSizes();
}

// Leads to the sizes and totals, wherever they stand on this screen.
function showSizes() {
  if (live) showSide(true);
  openSheet("side");
  $("side-title").focus({ preventScroll: true });
}

function closeGuide() {
  cards = false;
  state.chapter = "";
  render("layer");
  $("start").focus();
}

function watchGuide() {
  if (generic) return;
  cards = !location.hash.replace(/^#/, "");  // who follows a link wants to see what it leads to
  $("start").addEventListener("click", () => {
    if (state.chapter || cards) return closeGuide();
    cards = true;
    render("layer");
    $("guide-title").focus({ preventScroll: true });
  });
}
