"""The parts of the terminal report; the only ones that import rich."""
