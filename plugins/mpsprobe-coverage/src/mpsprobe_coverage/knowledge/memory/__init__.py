"""How much memory a run holds, and when; it knows no device, and what records is of any kind."""
