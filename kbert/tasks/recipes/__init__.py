"""Recipes: named settings of a pretraining with their sources, and everything around one run."""
