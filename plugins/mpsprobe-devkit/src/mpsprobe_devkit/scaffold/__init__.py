"""What ``mpsprobe plugins new`` writes: a whole package for a plugin, from the templates in this folder."""
