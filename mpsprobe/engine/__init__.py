"""From a plan to a report: warm-up, samples, and what they say. Knows no framework; devices and probes are plugins'."""
