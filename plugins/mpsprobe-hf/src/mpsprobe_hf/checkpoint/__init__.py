"""Checkpoints read from the headers of their files: nothing is loaded, and neither torch nor transformers imported."""
