// What benchmarks/live_browsers.py adds to a page's scripts: it measures from inside of them.
// `holder` comes before it: the object whose `key` is the newest trace. Of kbert's page it uses
// `go`, `showStage` and `$`.

const inputOf = () => document.getElementById("text");

let newest = holder[key];
const waiting = [];

// A trace is drawn in the task that keeps it, thus in the next frame. Nothing asks for frames
// before that: a page that draws all the time answers a key a frame later.
Object.defineProperty(holder, key, {
  get: () => newest,
  set(trace) {
    newest = trace;
    const channel = new MessageChannel();
    channel.port1.onmessage = () => waiting.splice(0).forEach((done) => done(performance.now()));
    requestAnimationFrame(() => channel.port2.postMessage(0));  // it arrives when this is drawn
  },
});

// The time when the next trace is on the screen.
const nextPicture = () => new Promise((done) => waiting.push(done));

self.bench = {
  firstResult: nextPicture(),

  firstPaint: () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? null,

  setText(text) {
    const picture = nextPicture();
    inputOf().focus();
    inputOf().value = text;
    inputOf().dispatchEvent(new Event("input", { bubbles: true }));
    return picture;
  },

  // Before a key is pressed; `bench.keystroke` is then a promise of what it took.
  watchKey() {
    this.keystroke = new Promise((resolve) => {
      addEventListener("keydown", async ({ timeStamp }) => {
        const picture = (await nextPicture()) - timeStamp;
        const { tokens, milliseconds, ms } = newest;
        resolve({ picture, model: milliseconds ?? ms, tokens: tokens.length });
      }, { capture: true, once: true });
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
