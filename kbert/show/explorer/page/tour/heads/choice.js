HEAD_OUTPUTS.choice = () => ["Classifier",
  `The classifier reads the vector of ${firstToken()} and gives one number per choice; the largest is the answer.`];

EXAMPLES.choice = ["She opened the umbrella because\tit was raining."];
