// Runs the model: the newest request wins, and there is never a queue.

const running = {
  model: null,
  busy: false,
  wanted: null,   // the newest request that has not begun
  trace: null,    // what is shown
  frozen: null,   // {trace, matched}: the frozen sentence, by the model with nothing off
  listeners: [],  // who hears of a new trace
};

function requestNow() {
  const { text, pair, off, temperature, token } = state;
  // the head for masked words is also asked about the token that is kept
  return clone({ text, pair, off, temperature, positions: token >= 0 ? [token] : [] });
}

const frozenRequest = () => ({
  text: state.frozen, pair: state.frozenPair, off: SENTENCE_STATE().off, temperature: 1, positions: [],
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
      await runFrozen();
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
  if (state.frozen === null) running.frozen = null;
  else {
    const request = frozenRequest();
    const same = JSON.stringify(request) === running.frozen?.key;
    if (!same) running.frozen = { key: JSON.stringify(request), trace: await running.model.run(request) };
  }
}

// Shows a new trace: the columns, the strips as a wave, the outputs, the stage.
function showTrace(trace) {
  const { frozen } = running;
  running.trace = trace;
  if (frozen) frozen.matched = matchTokens(trace.tokens, frozen.trace.tokens);
  if (state.token >= trace.tokens.length) state.token = -1;
  tellSentence(describeRun(trace));
  heat.columns = placeColumns(trace.tokens, stack.wide);
  drawTokens();
  drawOutputs();
  drawLegend();
  showStage();
  paintStrips(true);
  running.listeners.forEach((listener) => listener(trace));
}

// How many tokens, how long it took, and what did not fit.
function describeRun(trace) {
  if (!sentenceShown()) return "The sentence goes through the page’s own sizes alone: press Reset there to see it";
  const { tokens, truncated } = trace;
  const time = trace.milliseconds ? ` · ${trace.milliseconds.toFixed(trace.milliseconds < 10 ? 1 : 0)} ms` : "";
  return `${tokens.length} tokens${time}${truncated ? ` · cut: this model takes ${grouped(live.config.P)} tokens, and the rest is left out` : ""}`;
}

// Of the encoder as a whole, the stage shows what comes out of it, or of the open block.
function stagedLayer() {
  if (state.chosen !== ENCODER) return state.chosen;
  return outputOf(state.open || current().L);
}

// The stage of the chosen box, drawn by page/stage: large, with the figure beside it.
function showStage() {
  const chosen = Boolean(running.trace) && sentenceShown() && state.chosen !== "";
  const drawn = chosen && typeof drawStage === "function";
  document.documentElement.classList.toggle("staged", chosen);
  $("stage-area").hidden = !chosen;
  drawSwitches();
  if (drawn) drawStage($("stage"), running.trace, stagedLayer(), litToken());
  else $("stage").replaceChildren();
}
