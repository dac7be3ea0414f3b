"""The one form that recorded and imported traces have, and what is made of it; needs neither torch nor TensorFlow."""
