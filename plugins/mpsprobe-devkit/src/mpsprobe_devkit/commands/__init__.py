"""The commands for authors of plugins."""
