// What there is to do in each chapter where sentences are recorded: they can be looked at.

for (const name of Object.keys(CHAPTERS)) {
  TASKS[name] = "Point at a token under the figure: its column lights up in every layer, and its numbers are shown large.";
}
