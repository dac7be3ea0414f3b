"""Compares the verdicts with what PyTorch's own tests expect of MPS (``mpsprobe kernels audit``).

``entries`` finds the OpInfo entries of the installed torch and ``procedure`` draws their arguments; ``running`` runs
them on the virtual device and on the CPU, in several processes; ``scoring`` compares the outcomes with the lists of a
release. ``modules`` does the same for PyTorch's modules and their marks, and ``untested`` runs samples that no test
has. ``tables`` and ``page`` say it.
"""
