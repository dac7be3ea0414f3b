"""A badge for a README: what a model meets on Apple silicon."""
