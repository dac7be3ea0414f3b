"""Hugging Face workloads: named models with real sizes, any transformers model type, checkpoints, Hub ids."""
