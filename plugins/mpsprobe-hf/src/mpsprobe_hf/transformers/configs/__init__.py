"""Default configurations made whole, and small ones."""
