HEAD_OUTPUTS.encoder = () => [takesMean() ? "" : "NSP-Dense",
  `${takesMean() ? "The mean of these vectors" : `The vector of ${firstToken()}`} stands for the text: a model trained for it gives texts of similar meaning similar vectors.`,
  "Press Freeze, change one word, and read the cosine of the two vectors."];

EXAMPLES.encoder = [
  "The animal did not cross the street because it was too tired.",
  "She sat on the bank of the river.",
];

const takesMean = () => Boolean(live?.pooling?.poolings.includes("mean"));
