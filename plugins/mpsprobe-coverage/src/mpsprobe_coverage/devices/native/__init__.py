"""A device of type MPS in a build of torch without MPS: C++ that is built once, and what opens it."""
