"""From what a model raised to a better guess."""
