// The guide, a band over the figure: three cards at the start, or a chapter of the tour.

let cards = false;  // whether the cards are shown
let drawnGuide = "";

function drawGuide() {
  if (generic) return;
  const chapters = pageChapters();
  const number = chapters.findIndex(({ name }) => name === state.chapter);
  if (number < 0) state.chapter = "";  // of another page: this one has no such chapter
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
  guide.replaceChildren(...(shown === "chapter" ? chapterBand(chapters, number) : shown ? cardBand(chapters) : []));
  if (inside) $("guide-title")?.focus({ preventScroll: true });
}

// The three cards: what one will see, and the way there.
function cardBand(chapters) {
  const number = chapters.filter(({ name }) => name !== CODA).length;
  return [
    h("div.cards", h("h2.hidden", { id: "guide-title", tabindex: -1 }, "Start"),
      live ? card("watch", "Watch a sentence go through", "attention", `${live.place === "recorded" ? "S" : "Type, and s"}ee each layer compute: from words to an answer.`, startTour) : null,
      card("cost", "What does it cost?", "feedforward", "Parameters, FLOPs and bytes of every layer, for any size.", showCosts),
      card("compare", "Compare two models", "embedding", `${comparison(current())}: totals, ratios, one scale.`, showComparison)),
    h("div.guide-steps", button(`Tour: ${number} chapters`, startTour, { class: "small primary", id: "tour" }), closeButton("Close the cards")),
  ];
}

// What is compared with what: base beside large, a model of another name beside a configuration.
function comparison(config) {
  const name = nameOf(config);
  const kind = Object.hasOwn(DATA.presets, name) ? "" : "the configuration ";
  return `${name} beside ${kind}${otherPreset(config)}`;
}

function card(name, title, kind, text, act) {
  return h("button", { type: "button", class: `card k-${kind}`, "data-card": name, onclick: act }, h("b", title), h("span.dim", text));
}

const closeButton = (told) => button("", closeGuide, { class: "close", "aria-label": told });

function chapterBand(chapters, place) {
  const chapter = chapters[place];
  const { task } = chapter;
  const sheet = task.includes("slider") ? "side" : "panel";  // a phone has both out of sight
  const last = chapters.filter(({ name }) => name !== CODA).length;
  return [
    h("nav.chapters", { "aria-label": "Chapters" },
      h("ol", { style: `--columns: ${Math.ceil(chapters.length / 2)}` }, chapters.map((one, number) => h("li", chapterLink(one, number))))),
    h("div.chapter",
      h("h2", { id: "guide-title", tabindex: -1 }, chapter.title, h("span.dim", chapter.name === CODA ? " and then" : ` ${place + 1} of ${last}`)),
      h("p", chapter.text)),
    h("div.task", h("h3", "Try it"), h("p", task),
      button(sheet === "side" ? "Show the sliders" : "Show the numbers", () => openSheet(sheet), { class: "small to-sheet" })),
    h("div.guide-steps",
      step(chapters[place - 1], "‹", "Chapter before", "back"),
      chapters[place + 1] ? step(chapters[place + 1], "Next ›", "Next chapter", "primary") : button("End", closeGuide, { class: "small primary" }),
      closeButton("Leave the tour")),
  ];
}

// A link to a chapter's state, which can be copied; in a notebook's frame links would leave the page.
function chapterLink(chapter, place) {
  const { name, title } = chapter;
  return h("a", {
    href: chapterFragment(chapter), title, "aria-label": name === CODA ? `Then: ${title}` : `Chapter ${place + 1}: ${title}`,
    "aria-current": state.chapter === name ? "step" : null,
    onclick: (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      showChapter(chapter);
    },
  }, name === CODA ? "+" : String(place + 1));
}

function step(chapter, label, told, kind) {
  return button(label, () => showChapter(chapter), { class: `small ${kind}`, "aria-label": told, disabled: !chapter });
}

// Shows a chapter: its state in the figure, its title for the keyboard and for screen readers.
function showChapter(chapter) {
  closeSheet();
  Object.assign(state, chapterState(chapter));
  checkMeasure();
  render("layer");
  if (live) followSentence();
  if (!state.chosen) FIGURE.fit();
  showChosen();
  $("guide-title").focus({ preventScroll: true });
}

const startTour = () => showChapter(pageChapters()[0]);

// Brings into view what is open or chosen; on a phone the sentence, where a chapter asks to type.
function showChosen() {
  const chapter = state.chapter && pageChapters().find(({ name }) => name === state.chapter);
  if (chapter?.typing && live && phone.matches) $("sentence").scrollIntoView();
  else if (state.open || state.chosen) bringChosen();
}

function checkMeasure() {
  document.querySelectorAll("[name=measure]").forEach((one) => (one.checked = one.value === state.measure));
}

function showCosts() {
  Object.assign(state, { measure: "flops", chosen: "" });
  checkMeasure();
  showSizes();
}

function showComparison() {
  if (!comparing()) toggleCompare();
  showSizes();
}

// Leads to the sizes and totals, wherever they stand on this screen.
function showSizes() {
  cards = false;
  render("layer");
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
  cards = !DATA.start && !location.hash.replace(/^#/, "");  // who follows a link wants to see what it leads to
  $("start").addEventListener("click", () => {
    if (state.chapter || cards) return closeGuide();
    cards = true;
    render("layer");
    $("guide-title").focus({ preventScroll: true });
  });
}
