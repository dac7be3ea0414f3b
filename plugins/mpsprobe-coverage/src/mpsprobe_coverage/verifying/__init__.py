"""Whether a device computes right numbers: a step on it and on the CPU, operator by operator, judged by float64."""
