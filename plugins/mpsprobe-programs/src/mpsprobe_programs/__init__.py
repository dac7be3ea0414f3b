"""Whole programs on a virtual MPS device, or watched on a real one."""
