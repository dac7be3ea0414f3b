"""What is known about MPS without running anything: kernels, judges of calls, advisories, chips, memory."""
