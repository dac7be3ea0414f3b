"""The views of a configuration, one file each: a function from a cell to its HTML, ``None`` where it has nothing."""
