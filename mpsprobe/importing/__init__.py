"""Reports of traces that others wrote: ``torch.profiler``'s files, in the Chrome trace format."""

from __future__ import annotations
