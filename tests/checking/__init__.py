"""The tests of ``mpsprobe.checking``."""
