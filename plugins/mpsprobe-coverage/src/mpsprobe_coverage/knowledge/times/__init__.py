"""How long calls take on each chip: what a call costs, and a model of time that was fitted to published figures."""
