// Runs the model: the newest request wins, and there is never a queue.

const running = {
  model: null,
  busy: false,
  wanted: null,   // the newest request that has not begun
  trace: null,    // what is shown
  frozen: null,   // {trace, matched}: the frozen sentence, by the model with nothing off
};

const traceShown = () => Boolean(running.trace) && sentenceShown();

function requestNow() {
  const { text, pair, off, temperature, token } = state;
  // the head for masked words is also asked about the token that is kept
  return { text, pair, off: requestOff(off), temperature, positions: token >= 0 ? [token] : [] };
}

const frozenRequest = () => ({
  text: state.frozen, pair: state.frozenPair,
  off: requestOff([]), temperature: 1, positions: [],
});

async function startModel() {
  tellSentence("The weights are being read …");
  try {
    running.model = await openModel(live);
    tellSentence("");
    showWhatCanBeTyped();
    runSentence();
  } catch (error) {
    tellSentence(`The model could not be started: ${error.message}`);
  }
}

function runSentence() {
  running.wanted = requestNow();
  if (running.model && !running.busy) runNewest();
}

async function runNewest() {
  running.busy = true;
  while (running.wanted) {
    const request = running.wanted;
    running.wanted = null;
    let trace = null;
    try {
      if (running.frozen || state.frozen !== null) await runFrozen();
      trace = await running.model.run(request);
    } catch (error) {
      tellSentence(`This sentence could not be computed: ${error.message}`);
    }
    if (trace) showTrace(trace);
  }
  running.busy = false;
}

// The frozen sentence is computed once; with text that was frozen before, it is there.
async function runFrozen() {
  const request = frozenRequest();
  const key = JSON.stringify(request);
  if (state.frozen === null) running.frozen = null;
  else if (running.frozen?.key !== key) {
    try {
      running.frozen = { key, trace: await running.model.run(request) };
    } catch (error) {  // an address may freeze a text that the model refuses
      Object.assign(state, { frozen: null, frozenPair: null });
      running.frozen = null;
      drawSentence();
      announce(`Nothing is frozen: ${error.message}`);
    }
  }
}

function showTrace(trace) {
  const { frozen } = running;
  const isFirst = !running.trace;
  running.trace = trace;
  if (frozen) frozen.matched = matchTokens(trace.tokens, frozen.trace.tokens);
  if (state.token >= trace.tokens.length) state.token = -1;
  showParts(true);
  if (isFirst) showAddressed();
}

// The first tokens took room of the figure's pane: what the address names is brought there again.
// On a phone the page scrolls instead, and its reader may be elsewhere by now.
function showAddressed() {
  if (phone.matches) return;
  if (view.fitted) FIGURE.fit();
  showChosen();
}

// The strips come first: they ask for the layout, which stands as long as nothing was changed.
function showParts(moves) {
  heat.columns = placeColumns(running.trace.tokens, stack.wide);
  paintStrips(moves);
  drawTokens();
  drawOutputs();
  drawLegend();
  showStage();
  tellSentence(describeRun(running.trace));
}

function describeRun({ tokens, truncated, milliseconds }) {
  if (!sentenceShown()) {
    return "The sentence goes through the page’s own sizes alone: press Reset there to see it";
  }
  const time = milliseconds && running.model.canType ? ` · ${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms` : "";
  const cut = " · cut: this model takes no more, and the rest is left out";
  return `${tokens.length} tokens${time}${truncated ? cut : ""}`;
}

// Of the encoder as a whole, the stage shows what comes out of it, or of the open block.
function stagedLayer() {
  if (state.chosen !== ENCODER) return state.chosen;
  return outputOf(state.open || current().L);
}

function showStage() {
  const chosen = traceShown() && state.chosen !== "";
  document.documentElement.classList.toggle("staged", chosen);
  $("stage-area").hidden = !chosen;
  if (!chosen) return;
  drawSwitches();
  drawStage($("stage"), running.trace, stagedLayer(), litToken());
}
