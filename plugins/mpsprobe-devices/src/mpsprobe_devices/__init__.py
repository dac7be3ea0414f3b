"""Devices and probes for ``mpsprobe profile``."""
