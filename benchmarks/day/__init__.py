"""BERT in a day, shown at a small scale: runs of three sizes under budgets of processor minutes."""
