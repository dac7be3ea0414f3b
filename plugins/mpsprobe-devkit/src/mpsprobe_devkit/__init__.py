"""For authors of plugins: ``testing``, ``checking`` and what ``plugins check`` and ``plugins new`` do."""
