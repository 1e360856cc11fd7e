// The tokens under the figure: buttons in the columns of the strips. Arrows go from one to the next,
// Enter or a click keeps one lit, Alt and an arrow or a drag swaps two words.

const pointer = { token: -1, dragged: -1, frame: 0 };
const THIN = 12;  // columns narrower than a line of text have ticks

const litToken = () => (pointer.token >= 0 ? pointer.token : state.token);

function drawTokens() {
  const row = $("tokens");
  const { trace } = running;
  const shown = Boolean(trace) && sentenceShown();
  $("token-room").hidden = !shown;
  if (!shown) return;
  const focused = row.contains(document.activeElement) ? Number(document.activeElement.dataset.token) : -1;
  drawTokenButtons(row, trace.tokens);
  placeTokens();
  drawTokenTools();
  roveTokens(focused >= 0 ? Math.min(focused, trace.tokens.length - 1) : Math.max(0, state.token), focused >= 0);
}

// A button per token; what is the same as before stays, which spares the browser its layout.
function drawTokenButtons(row, tokens) {
  while (row.children.length > tokens.length) row.lastChild.remove();
  tokens.forEach((token, place) => {
    const kind = isPadding(token) ? "padding" : isMarker(token) ? "special" : `segment-${token.segment}`;
    const told = `${token.text}, token ${place + 1} of ${tokens.length}${token.special ? ", a special token" : ""}`;
    const old = row.children[place];
    if (old?.getAttribute("aria-label") === told && old.classList.contains(kind)) return;
    const drawn = h("button", {
      type: "button", class: `token ${kind}`, "data-token": place, tabindex: -1, "aria-label": told, title: token.text,
    }, h("span", {}, token.text));
    if (old) old.replaceWith(drawn);
    else row.append(drawn);
  });
}

// Puts the tokens into the columns as the figure stands; upright where they are wide enough.
function placeTokens() {
  const row = $("tokens");
  const buttons = [...row.children];
  if (!buttons.length || !heat.columns.length) return;
  const beside = pane().getBoundingClientRect().left - row.getBoundingClientRect().left;
  const left = beside + view.x + stack.left * view.scale;
  const widths = heat.columns.map(({ width }) => width * view.scale);
  const form = formOfTokens();
  row.className = `tokens ${form}`;
  buttons.forEach((button, place) => {
    button.style.left = `${left + heat.columns[place].x * view.scale}px`;
    button.style.width = `${Math.max(1, widths[place] - (widths[place] > 6 ? 1 : 0))}px`;
  });
  const high = { flat: 26, thin: 34, upright: 80 }[form];
  row.style.height = `${high}px`;
  lightToken();
}

// How the tokens are written. By the columns at a scale of 1, whatever the scale is: the row's height
// changes the pane's, and with it the scale.
function formOfTokens() {
  const { tokens } = running.trace;
  const columns = placeColumns(tokens, stack.wide - (stack.width - (pane().clientWidth - PANE_EDGE)));
  const fits = tokens.every((token, place) => textWidth(token.text) <= columns[place].width);
  return fits ? "flat" : columns[0].width >= THIN ? "upright" : "thin";
}

const ruler = document.createElement("canvas").getContext?.("2d");

function textWidth(text) {
  ruler.font = "500 12px system-ui, sans-serif";
  return ruler.measureText(text).width + 6;
}

function roveTokens(place, focus) {
  for (const button of $("tokens").children) button.tabIndex = Number(button.dataset.token) === place ? 0 : -1;
  if (focus) $("tokens").children[place]?.focus({ preventScroll: true });
}

// Lights a column everywhere: at its token, in all strips, in the stage.
function lightToken(place = pointer.token) {
  const changed = place !== pointer.token;
  pointer.token = place;
  const lit = litToken();
  for (const button of $("tokens").children) {
    const own = Number(button.dataset.token);
    button.classList.toggle("lit", own === lit);
    button.setAttribute("aria-pressed", String(own === state.token));
  }
  if (changed) tokenChanged();
}

function tokenChanged() {
  if (stack.strips.some(({ box }) => box.endsWith("/heads"))) paintStrips(false);
  else drawHeat();
  if (running.trace.outputs.mlm?.length > 1) drawOutputs();
  drawTokenTools();
  if ($("stage-area").hidden) return;
  cancelAnimationFrame(pointer.frame);
  pointer.frame = requestAnimationFrame(showStage);  // of many tokens that are passed, the last one
}

// Keeps a token lit, or lets it go.
function keepToken(place) {
  state.token = state.token === place ? -1 : place;
  pointer.token = -1;
  lightToken();
  tokenChanged();
  if (running.trace.outputs.mlm) runSentence();
  keepSentenceInUrl();
  announce(state.token >= 0 ? `${running.trace.tokens[place].text} is kept lit` : "No token is kept lit");
}

function swapTokens(from, to) {
  const swapped = swapWords(running.trace, from, to);
  if (!swapped) return;
  Object.assign(state, swapped);
  if (state.token === from) state.token = to;
  roveTokens(to, $("tokens").contains(document.activeElement));
  sentenceChanged();
  announce(`Swapped: ${state.text}`);
}

// The word before or after a token's word; −1: there is none.
function nextWord(place, step) {
  const { tokens } = running.trace;
  const word = wordOf(tokens, place);
  for (let at = place + step; word && at >= 0 && at < tokens.length; at += step) {
    const other = wordOf(tokens, at);
    if (other && other.first !== word.first) return other.first;
  }
  return -1;
}

function tokenKey(event) {
  const button = event.target.closest("[data-token]");
  if (!button) return;
  const place = Number(button.dataset.token);
  const last = running.trace.tokens.length - 1;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const to = { Home: 0, End: last }[event.key] ?? (step ? Math.min(last, Math.max(0, place + step)) : -1);
  if (event.altKey && step) {
    const word = nextWord(place, step);
    if (word >= 0) swapTokens(place, word);
  } else if (to >= 0) roveTokens(to, true);
  else if (event.key === "Escape" && state.token >= 0) keepToken(state.token);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function watchTokens() {
  const row = $("tokens");
  const tokenOf = (target) => Number(target?.closest?.("[data-token]")?.dataset.token ?? -1);
  row.addEventListener("keydown", tokenKey);
  row.addEventListener("focusin", (event) => lightToken(tokenOf(event.target)));
  row.addEventListener("focusout", () => lightToken(-1));
  row.addEventListener("pointerover", (event) => lightToken(tokenOf(event.target)));
  row.addEventListener("pointerleave", () => lightToken(-1));
  row.addEventListener("click", (event) => {
    const place = tokenOf(event.target);
    if (place >= 0 && pointer.dragged !== -2) keepToken(place);
    pointer.dragged = -1;
  });
  watchDrags(row, tokenOf);
  pane().addEventListener("pointermove", (event) => {
    if (event.buttons || !running.trace || !sentenceShown()) return;
    const left = pane().getBoundingClientRect().left;
    lightToken(columnAt(heat.columns, (event.clientX - left - view.x) / view.scale - stack.left));
  });
  pane().addEventListener("pointerleave", () => lightToken(-1));
}

// A token that is dragged onto another swaps their words.
function watchDrags(row, tokenOf) {
  let start = null;
  row.addEventListener("pointerdown", (event) => {
    const place = tokenOf(event.target);
    start = place >= 0 ? { place, x: event.clientX } : null;
    pointer.dragged = -1;
  });
  row.addEventListener("pointermove", (event) => {
    if (!start || Math.abs(event.clientX - start.x) < 6) return;
    pointer.dragged = start.place;
    if (!row.hasPointerCapture(event.pointerId)) row.setPointerCapture(event.pointerId);
    const over = tokenOf(document.elementFromPoint(event.clientX, event.clientY));
    for (const button of row.children) {
      const place = Number(button.dataset.token);
      button.classList.toggle("dragged", place === start.place);
      button.classList.toggle("over", place === over && place !== start.place);
    }
  });
  row.addEventListener("pointerup", (event) => {
    const over = tokenOf(document.elementFromPoint(event.clientX, event.clientY));
    const from = pointer.dragged;
    start = null;
    if (from < 0) return;
    pointer.dragged = -2;  // the click that ends a drag keeps nothing
    setTimeout(() => (pointer.dragged = -1));
    for (const button of row.children) button.classList.remove("dragged", "over");
    if (over >= 0 && over !== from) swapTokens(from, over);
  });
  row.addEventListener("pointercancel", () => (start = null));
}

// What can be done with the token that is kept: swap its word, or hide it.
function drawTokenTools() {
  const { trace } = running;
  const tools = $("token-tools");
  const place = state.token;
  const word = trace && wordOf(trace.tokens, place);
  tools.hidden = !word;
  if (!word) return;
  const swap = (step, label) => {
    const other = nextWord(place, step);
    return other < 0 ? null : button(label, () => swapTokens(place, other), { class: "small" });
  };
  const sentence = [trace.request.text, trace.request.pair][word.segment];
  const text = sentence.slice(word.start, word.end);
  tools.replaceChildren(...[h("span", { class: "dim" }, `“${text}”`), swap(-1, "← Swap"), swap(1, "Swap →"),
    "mlm" in trace.outputs && text !== "[MASK]" ? button("Hide it: [MASK]", () => hideWord(word), { class: "small" }) : null].filter(Boolean));
}

function hideWord(word) {
  const key = word.segment ? "pair" : "text";
  state[key] = `${state[key].slice(0, word.start)}[MASK]${state[key].slice(word.end)}`;
  sentenceChanged();
}
