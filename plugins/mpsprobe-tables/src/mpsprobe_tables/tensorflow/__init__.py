"""Reads which kernels Apple's plugin for TensorFlow registers, by running that one function of it in an emulator."""
