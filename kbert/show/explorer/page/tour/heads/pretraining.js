HEAD_OUTPUTS.pretraining = ({ config, n }) => ["MLM-Sim",
  `The MLM head compares it with all ${n.T} rows of the token table and guesses the token${
    layerOf("NSP", config) ? `; the NSP head reads ${firstToken()} and says whether the second text follows the first` : ""}.`,
  "Choose a word under the figure and hide it: the ten likeliest tokens come out."];

EXAMPLES.pretraining = ["The capital of France is [MASK].", "Where do you live?\tI live in Paris."];
