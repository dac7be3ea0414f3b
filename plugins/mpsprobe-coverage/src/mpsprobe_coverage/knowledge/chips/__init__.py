"""Apple's chips, and what Metal lets a process take on each: facts that people published, with their sources."""
