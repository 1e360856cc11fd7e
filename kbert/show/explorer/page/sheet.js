// Sheets: where a screen is too small for three columns, the panel lies over the figure, on a phone
// the configuration too. One at a time; Escape, its button or a pull downwards closes it.

const phone = matchMedia("(max-width: 759px)");
const tablet = matchMedia("(min-width: 760px) and (max-width: 1179px)");
const PULL = 70;  // pixels downwards that close a sheet

const openedSheet = () => document.body.dataset.sheet || "";
const sheetOf = (name) => document.querySelector(`.${name}`);
const isSheet = (name) => phone.matches || (tablet.matches && name === "panel");

let openedFrom = null;  // what had the focus before a sheet was opened

// Opens a sheet, whose title gets the focus if `reading`; nothing to do where it is a column.
function openSheet(name, reading = true) {
  if (!isSheet(name)) return;
  if (openedSheet() !== name) openedFrom = markOf(document.activeElement);
  showSheet(name);
  $("panel").scrollTo(0, 0);
  if (reading && phone.matches) $(`${name}-title`).focus({ preventScroll: true });
}

// Closes the open sheet and gives the focus back; returns whether one was open.
function closeSheet() {
  const name = openedSheet();
  if (!name || !isSheet(name)) return false;
  const focused = document.activeElement;
  showSheet("");
  if (focused === document.body || sheetOf(name).contains(focused)) {
    elementOf(openedFrom)?.focus({ preventScroll: true });
  }
  return true;
}

function showSheet(name) {
  if (name) document.body.dataset.sheet = name;
  else delete document.body.dataset.sheet;
  document.querySelectorAll("button[data-sheet]").forEach((one) =>
    (one.ariaExpanded = one.dataset.sheet === name));
}

// How to find an element again after it was drawn anew: rows and boxes by their names.
function markOf(element) {
  const { row, id } = element?.dataset || {};
  if (row) return `[data-row="${CSS.escape(row)}"]`;
  return id ? `[data-id="${CSS.escape(id)}"]` : element;
}

const elementOf = (mark) => (typeof mark === "string" ? document.querySelector(mark) : mark);

function watchSheets() {
  document.querySelectorAll("button[data-sheet]").forEach((one) => {
    const { sheet } = one.dataset;
    one.onclick = () => (openedSheet() === sheet ? closeSheet() : openSheet(sheet));
  });
  for (const screen of [phone, tablet]) {
    screen.onchange = () => {
      showSheet("");
      render("url");
    };
  }
  document.querySelectorAll(".sheet-bar").forEach((bar) => {
    bar.querySelector(".close").onclick = closeSheet;
    watchPull(bar, bar.parentElement);
  });
}

// A sheet follows the finger that pulls at its bar.
function watchPull(bar, sheet) {
  let start = null;
  const onpointerdown = (event) => {
    if (event.target.closest("button")) return;
    start = event.clientY;
    bar.setPointerCapture(event.pointerId);
  };
  const onpointermove = (event) => {
    if (start !== null) sheet.style.translate = `0 ${Math.max(0, event.clientY - start)}px`;
  };
  const onlostpointercapture = (event) => {
    if (event.clientY - start > PULL) closeSheet();
    start = null;
    sheet.style.translate = "";
  };
  Object.assign(bar, { onpointerdown, onpointermove, onlostpointercapture });
}
