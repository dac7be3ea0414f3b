"""The coverage scanner: a workload run once on the virtual MPS device, and what was seen as a report."""
