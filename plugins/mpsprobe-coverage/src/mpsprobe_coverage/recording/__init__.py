"""What any device notes of a run: calls with judgement and origin, and the ways that they take to their kernels."""
