// What there is to do in each chapter where one can type.

Object.assign(TASKS, {
  words: "Type a rare word into the sentence, such as your name: it becomes several tokens. Point at a token to read its id.",
  sum: "Choose a word under the figure and press Swap →: it keeps its token vector, and gets the vector of another position.",
  norm: "Point at a token: see its numbers before LayerNorm and after.",
  question: "Point at a token: its query meets every key, and below, softmax turns its row of scores into weights with the sum 1.",
  heads: "Press Freeze, then switch a head off: the darker a column, the more this token's vector has changed.",
  keep: "Switch this residual off: what the token was is lost, and only the mixture is left.",
  feedforward: "Point at a token: its points on the activation's curve show which of its numbers pass.",
  output: "Change one word, and see what comes out.",
});
