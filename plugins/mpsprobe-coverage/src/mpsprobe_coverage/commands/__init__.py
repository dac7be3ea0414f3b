"""The commands of this plugin, one file each."""
