"""A sweep: many workloads, each in a process with limits, into a store."""
