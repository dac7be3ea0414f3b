"""The parts of the terminal report."""
