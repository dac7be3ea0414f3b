"""Tests of what stands in ``benchmarks/``."""
