"""A program in a process of its own, from its command line to its report."""
