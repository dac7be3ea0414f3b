"""Kernel tables of Intel XPU, for ``mpsprobe coverage --backend xpu``."""
