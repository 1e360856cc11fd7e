"""Models by name: those in Hugging Face's and Kaggle's caches, downloads, and what is pushed."""
