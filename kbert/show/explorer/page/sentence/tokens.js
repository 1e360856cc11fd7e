// The tokens under the figure, in the strips' columns. Arrows go from one to the next, Enter or a
// click keeps one lit, Alt and an arrow or a drag swaps two words.

const pointer = { token: -1, frame: 0 };
const THIN = 12;  // columns narrower than a line of text have ticks
const TOKEN_HEIGHTS = { flat: 26, thin: 34, upright: 80 };

const litToken = () => (pointer.token >= 0 ? pointer.token : state.token);

function drawTokens() {
  const row = $("tokens");
  const { trace } = running;
  $("token-room").hidden = !traceShown();
  if ($("token-room").hidden) return;
  const hadFocus = row.contains(document.activeElement);
  const focused = hadFocus ? Number(document.activeElement.dataset.token) : state.token;
  drawTokenButtons(row, trace.tokens);
  if (live.attribution) markScores(row, trace);
  placeTokens();
  drawTokenTools();
  roveTokens(Math.max(0, Math.min(focused, trace.tokens.length - 1)), hadFocus);
}

// A button per token; what is the same as before stays, which spares the browser its layout.
function drawTokenButtons(row, tokens) {
  while (row.children.length > tokens.length) row.lastChild.remove();
  tokens.forEach((token, place) => {
    const kind = groupOf(token);
    const special = token.special ? ", a special token" : "";
    const told = `${token.text}, token ${place + 1} of ${tokens.length}${special}`;
    const old = row.children[place];
    if (old?.getAttribute("aria-label") === told && old.classList.contains(kind)) return;
    const drawn = h("button", {
      type: "button", class: `token ${kind}`, "data-token": place, tabindex: -1,
      "aria-label": told, title: token.text,
    }, h("span", token.text));
    if (old) old.replaceWith(drawn);
    else row.append(drawn);
  });
}

function placeTokens() {
  const row = $("tokens");
  if (!row.children.length || row.children.length !== heat.columns.length) return;
  const beside = pane().getBoundingClientRect().left - row.getBoundingClientRect().left;
  const left = beside + view.x + stack.left * view.scale;
  const form = formOfTokens();
  row.className = `tokens ${form}`;
  row.style.height = `${TOKEN_HEIGHTS[form]}px`;
  heat.columns.forEach(({ x, width }, place) => {
    const wide = width * view.scale;
    row.children[place].style.left = `${left + x * view.scale}px`;
    row.children[place].style.width = `${Math.max(1, wide - (wide > 6 ? 1 : 0))}px`;
  });
  lightToken();
}

// How the tokens are written: by the columns at a scale of 1, for the row's height changes it.
function formOfTokens() {
  const { tokens } = running.trace;
  const around = stack.width - stack.wide + PANE_EDGE;
  const [{ width }] = placeColumns(tokens, pane().clientWidth - around);
  ruler.font = "12px system-ui, sans-serif";
  const fits = tokens.every(({ text }) => ruler.measureText(text).width + 6 <= width);
  return fits ? "flat" : width >= THIN ? "upright" : "thin";
}

const ruler = document.createElement("canvas").getContext?.("2d");

function roveTokens(place, focus) {
  [...$("tokens").children].forEach((one, n) => { one.tabIndex = n === place ? 0 : -1; });
  if (focus) $("tokens").children[place]?.focus({ preventScroll: true });
}

function lightToken(place = pointer.token) {
  const changed = place !== pointer.token;
  pointer.token = place;
  const lit = litToken();
  [...$("tokens").children].forEach((one, n) => {
    one.classList.toggle("lit", n === lit);
    one.setAttribute("aria-pressed", String(n === state.token));
  });
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

function keepToken(place) {
  state.token = state.token === place ? -1 : place;
  pointer.token = -1;
  lightToken();
  tokenChanged();
  if (running.trace.outputs.mlm) runSentence();
  keepSentenceInUrl();
  const { text } = running.trace.tokens[place];
  announce(state.token >= 0 ? `${text} is kept lit` : "No token is kept lit");
}

function swapTokens(from, to) {
  const swapped = running.model.canType && swapWords(running.trace, from, to);
  if (!swapped) return;
  Object.assign(state, swapped);
  if (state.token === from) state.token = to;
  roveTokens(to, $("tokens").contains(document.activeElement));
  sentenceChanged();
  announce(`Swapped: ${state.text}`);
}

function nextWord(place, step) {
  const { tokens } = running.trace;
  const word = wordOf(tokens, place);
  for (let at = place + step; word && at >= 0 && at < tokens.length; at += step) {
    const other = wordOf(tokens, at);
    if (other && other.first !== word.first) return other.first;
  }
  return -1;
}

const tokenOf = (target) => Number(target?.closest?.("[data-token]")?.dataset.token ?? -1);

function tokenKey(event) {
  const place = tokenOf(event.target);
  if (place < 0) return;
  const last = running.trace.tokens.length - 1;
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (event.altKey && step) {
    const word = nextWord(place, step);
    if (word >= 0) swapTokens(place, word);
  } else if (step) roveTokens(Math.min(last, Math.max(0, place + step)), true);
  else if (event.key === "Escape" && state.token >= 0) keepToken(state.token);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function watchTokens() {
  const point = ({ target }) => lightToken(tokenOf(target));
  const leave = () => lightToken(-1);
  let from = -1;  // the token that is dragged: onto another one, to swap their words
  fill($("tokens"), {
    onkeydown: tokenKey, onfocusin: point, onfocusout: leave, onpointerover: point, onpointerleave: leave,
    onclick: ({ target }) => {
      const place = tokenOf(target);
      if (place >= 0) keepToken(place);
    },
    onpointerdown: ({ target }) => { from = tokenOf(target); },
    onpointerup: (event) => {
      const to = tokenOf(document.elementFromPoint(event.clientX, event.clientY));
      if (from >= 0 && to >= 0 && to !== from) swapTokens(from, to);
      from = -1;
    },
  });
  fill(pane(), {
    onpointermove: (event) => {
      if (event.buttons || !traceShown()) return;
      const left = pane().getBoundingClientRect().left;
      const x = (event.clientX - left - view.x) / view.scale - stack.left;
      lightToken(heat.columns.findIndex((column) => x >= column.x && x < column.x + column.width));
    },
    onpointerleave: leave,
  });
}

function drawTokenTools() {
  const { trace } = running;
  const tools = $("token-tools");
  const place = state.token;
  const word = wordOf(trace.tokens, place);
  tools.hidden = !word || !running.model.canType;
  if (tools.hidden) return;
  const swap = (step, label) => {
    const other = nextWord(place, step);
    return other < 0 ? "" : button(label, () => swapTokens(place, other), { class: "small" });
  };
  const sentence = [trace.request.text, trace.request.pair][word.segment];
  const text = sentence.slice(word.start, word.end);
  const hides = "mlm" in trace.outputs && text !== "[MASK]";
  tools.replaceChildren(h("span.dim", `“${text}”`),
    swap(-1, "← Swap"), swap(1, "Swap →"),
    hides ? button("Hide it: [MASK]", () => hideWord(word), { class: "small" }) : "");
}

function hideWord(word) {
  const key = word.segment ? "pair" : "text";
  state[key] = `${state[key].slice(0, word.start)}[MASK]${state[key].slice(word.end)}`;
  sentenceChanged();
}
