"""Callbacks of training loops that judge some of their steps: transformers' ``Trainer`` and Lightning's."""
