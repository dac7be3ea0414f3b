"""Workloads of TensorFlow on the devices that it has here: built with values, stepped and timed."""
