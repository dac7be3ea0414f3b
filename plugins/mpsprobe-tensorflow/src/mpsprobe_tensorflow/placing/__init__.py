"""Where TensorFlow puts each operation of a graph: ``nodes <- kernels <- placer <- crossing``."""
