"""What MPS does with a model's operators: kernel tables, the virtual MPS device, the coverage scanner."""
