HEAD_OUTPUTS.pretraining = ({ config, n }) => ["MLM-Sim",
  `The MLM head compares it with all ${n.T} rows of the token table and guesses the token${
    (live ? live.outputs.includes("nsp") : layerOf("NSP", config)) ? `; the NSP head reads ${firstToken()} and says whether the second text follows the first` : ""}.`,
  "Choose a word under the figure and hide it: the ten likeliest tokens come out."];

EXAMPLES.pretraining = ["She opened the [MASK] and went into the garden.", "Where do you live?\tI live in Paris."];
