"""The patch that makes a program run on MPS: found by rules, written with its format, proved on the virtual device."""
