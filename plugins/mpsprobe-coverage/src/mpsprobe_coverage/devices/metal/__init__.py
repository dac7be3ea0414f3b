"""Metal source, run on the CPU: what ``torch.mps.compile_shader`` is on the virtual device."""
