"""What is measured besides time: memory, the host's processor, energy, heat and power."""
