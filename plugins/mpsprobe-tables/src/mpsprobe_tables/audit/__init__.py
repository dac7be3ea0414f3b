"""Compares the verdicts with what PyTorch's own tests expect of MPS (``mpsprobe kernels audit``).

``entries`` finds the OpInfo entries of the installed torch and ``samples`` draws their arguments; ``running`` runs
them on the virtual device and ``reference`` on the CPU, ``workers`` in several processes; ``scoring`` compares the
outcomes with the lists of a release. ``modules`` does the same for PyTorch's modules and their marks, and ``untested``
runs samples that no test has. ``tables``, ``page`` and ``json_document`` say it.
"""
