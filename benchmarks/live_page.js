// What benchmarks/live_browsers.py adds to a page's scripts: it measures from inside of them.
// `findTrace` comes before it; of kbert's page it uses `go`, `showStage` and `$`.

const inputOf = () => document.getElementById("text");

// Calls `done` with the time after the first frame that has another trace than `before`.
function awaitPicture(before, done) {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done(performance.now());
  const look = () => {
    if (findTrace() === before) requestAnimationFrame(look);
    else channel.port2.postMessage(0);  // it arrives when this frame is drawn
  };
  requestAnimationFrame(look);
}

self.bench = {
  firstResult: new Promise((resolve) => awaitPicture(findTrace(), resolve)),

  firstPaint: () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,

  setText(text) {
    const picture = new Promise((resolve) => awaitPicture(findTrace(), resolve));
    inputOf().focus();
    inputOf().value = text;
    inputOf().dispatchEvent(new Event("input", { bubbles: true }));
    return picture;
  },

  // Before a key is pressed; `bench.keystroke` is then a promise of what it took.
  watchKey() {
    const before = findTrace();
    this.keystroke = new Promise((resolve) => {
      addEventListener("keydown", ({ timeStamp }) => awaitPicture(before, (time) => {
        const { tokens, milliseconds, ms } = findTrace();
        resolve({ picture: time - timeStamp, model: milliseconds ?? ms, tokens: tokens.length });
      }), { capture: true, once: true });
    });
  },

  hasStage: typeof showStage !== "undefined",

  // The milliseconds that scripts and layout take to draw the stage of a layer, `count` times.
  timeStage(layer, count) {
    go(layer);
    const times = [];
    for (let number = 0; number < count; number += 1) {
      const start = performance.now();
      showStage();
      $("stage").getBoundingClientRect();
      times.push(performance.now() - start);
    }
    return times;
  },
};
