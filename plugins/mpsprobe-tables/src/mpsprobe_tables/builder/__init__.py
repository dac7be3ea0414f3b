"""Makes a kernel table from a macOS wheel, which is read and never imported or run."""
