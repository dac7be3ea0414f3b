"""What measures beside time: memory, the host's processor, energy, heat and power."""
