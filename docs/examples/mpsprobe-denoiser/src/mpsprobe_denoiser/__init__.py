"""Diffusion models of any size, in plain torch, as workloads of mpsprobe."""
