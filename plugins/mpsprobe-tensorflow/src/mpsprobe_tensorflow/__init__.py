"""TensorFlow and Keras on Apple's Metal plugin: workloads ``keras:NAME``, and what runs where."""
