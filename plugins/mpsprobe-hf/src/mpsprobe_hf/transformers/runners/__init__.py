"""Hugging Face's own training loops, stepped one optimizer update at a time."""
