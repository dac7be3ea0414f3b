"""The command line: one file per command of the core, and the group that finds those of plugins."""
