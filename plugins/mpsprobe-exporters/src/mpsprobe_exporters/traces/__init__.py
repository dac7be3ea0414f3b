"""Time lines: the Chrome trace format, which Perfetto plays too, and the logdir of torch-tb-profiler."""
