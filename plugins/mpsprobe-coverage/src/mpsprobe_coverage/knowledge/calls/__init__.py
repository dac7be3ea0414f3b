"""One operator call as any device records it: what its tensors are, and which dispatch key serves it."""
