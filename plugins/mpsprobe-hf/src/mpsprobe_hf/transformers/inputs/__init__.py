"""What the inputs of a model are, from its class and its configuration."""
