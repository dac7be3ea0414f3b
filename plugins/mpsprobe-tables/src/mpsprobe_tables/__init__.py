"""For maintainers: kernel tables built from wheels, and the audit of verdicts by PyTorch's own tests."""
