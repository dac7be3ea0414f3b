"""Makes a kernel table from a macOS wheel, which is read: nothing of it is imported or run but its lists of
expectations (``expectations``)."""
