"""GLUE: nine tasks from their own files, fine-tuned by the paper's settings: `glue`."""
