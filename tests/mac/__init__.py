"""What only a Mac with Apple silicon can show. Collected where MPS is there, and nowhere else."""
