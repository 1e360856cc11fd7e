// Sheets: where a screen is too small for three columns, the panel lies over the figure, on a phone
// the configuration too. One at a time; Escape, its button or a pull downwards closes it.

const phone = matchMedia("(max-width: 759px)");
const tablet = matchMedia("(min-width: 760px) and (max-width: 1179px)");
const PULL = 70;  // pixels downwards that close a sheet

const SHEETS = {
  panel: { element: () => document.querySelector(".panel"), title: () => $("panel-title") },
  side: { element: () => document.querySelector(".side"), title: () => $("side-title") },
};
const openedSheet = () => document.body.dataset.sheet || "";
const isSheet = (name) => phone.matches || (tablet.matches && name === "panel");

let opener = null;  // what had the focus before a sheet was opened

// Opens a sheet, whose title gets the focus if `reading`; nothing to do where it is a column.
function openSheet(name, reading = true) {
  if (!isSheet(name)) return;
  if (openedSheet() !== name) opener = markOf(document.activeElement);
  showSheet(name);
  SHEETS[name].element().querySelector("#panel, .side-scroll")?.scrollTo(0, 0);
  if (reading && phone.matches) SHEETS[name].title().focus({ preventScroll: true });
}

// Closes the open sheet and gives the focus back; returns whether one was open.
function closeSheet() {
  const name = openedSheet();
  if (!name || !isSheet(name)) return false;
  const inside = SHEETS[name].element().contains(document.activeElement);
  showSheet("");
  if (inside || document.activeElement === document.body) elementOf(opener)?.focus({ preventScroll: true });
  return true;
}

function showSheet(name) {
  if (name) document.body.dataset.sheet = name;
  else delete document.body.dataset.sheet;
  document.querySelectorAll("[data-sheet][aria-expanded]").forEach((one) =>
    one.setAttribute("aria-expanded", String(one.dataset.sheet === name)));
}

// How to find an element again after it was drawn anew: rows and boxes by their names.
function markOf(element) {
  if (element?.dataset?.row) return `[data-row="${CSS.escape(element.dataset.row)}"]`;
  if (element?.dataset?.id) return `[data-id="${CSS.escape(element.dataset.id)}"]`;
  return element && element !== document.body ? element : null;
}

const elementOf = (mark) => (typeof mark === "string" ? document.querySelector(mark) : mark);

function watchSheets() {
  document.querySelectorAll("button[data-sheet]").forEach((one) => one.addEventListener("click", () => {
    if (openedSheet() === one.dataset.sheet) closeSheet();
    else openSheet(one.dataset.sheet);
  }));
  document.querySelectorAll("[data-close]").forEach((one) => one.addEventListener("click", closeSheet));
  Object.values(SHEETS).forEach(({ element }) => watchPull(element()));
}

// A sheet follows the finger that pulls at its bar.
function watchPull(sheet) {
  const bar = sheet.querySelector(".sheet-bar");
  let start = null;
  bar.addEventListener("pointerdown", (event) => {
    if (event.target.closest("button")) return;
    start = event.clientY;
    bar.setPointerCapture(event.pointerId);
  });
  bar.addEventListener("pointermove", (event) => {
    if (start !== null) sheet.style.translate = `0 ${Math.max(0, event.clientY - start)}px`;
  });
  const end = (event) => {
    if (start !== null && event.type === "pointerup" && event.clientY - start > PULL) closeSheet();
    start = null;
    sheet.style.translate = "";
  };
  bar.addEventListener("pointerup", end);
  bar.addEventListener("pointercancel", end);
}
