HEAD_OUTPUTS.qa = () => ["Span",
  "The head gives two numbers per token: whether the answer starts there, and whether it ends there."];

EXAMPLES.qa = ["Where does the river rise?\tThe Rhine rises in the Swiss Alps and flows to the North Sea."];
