"""Tests of the core, mirroring its folders, and the house rules."""
