"""Pipelines of diffusers as workloads for mpsprobe; see ``plugin.py``."""
