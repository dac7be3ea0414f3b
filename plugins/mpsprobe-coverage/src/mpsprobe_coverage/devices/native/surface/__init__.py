"""What Python code asks torch about MPS, answered as on a Mac."""
