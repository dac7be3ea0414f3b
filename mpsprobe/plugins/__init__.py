"""Finds, loads, contains and asks plugins. Public: ``mpsprobe.plugins.registry``."""
