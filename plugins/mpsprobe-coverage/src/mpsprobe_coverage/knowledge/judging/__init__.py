"""What becomes of a call on a release: the verdict and why. ``chain.py`` says who is asked, in which order."""
