// What there is to do in each chapter on a page without a sentence.

Object.assign(TASKS, {
  words: "Move the slider T, tokens: the table has one row per token, so the parameters grow with it.",
  sum: "Move the slider P, positions: each position has a row of its own, which the longest text needs.",
  question: "Choose W_K, then W_V in the figure: all three have the same shape, and are learned apart.",
  heads: "Choose a head: the details say which columns of the matrices are its own.",
  feedforward: "Move the slider FFD, feed-forward, and see how this part of the model grows.",
  output: "Follow the arrows upwards: choose the layers above the encoder one after the other.",
});
