"""Which kernels each release of tensorflow-metal registers, read from its wheels, and with what each release goes."""
