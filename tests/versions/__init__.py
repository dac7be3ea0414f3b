"""Both ends of the supported range."""
