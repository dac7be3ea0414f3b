"""The commands for maintainers, in the group ``mpsprobe kernels``."""
