"""Answers that were worked out once: what they depend on, and the user's cache folder in which they are kept.

Nothing here imports torch, pydantic or rich: an answer from the cache is there sooner than any of them.
"""
