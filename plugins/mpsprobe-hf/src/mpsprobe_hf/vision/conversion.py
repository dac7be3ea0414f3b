"""Making a quantized model, which takes real weights: torchvision observes a random picture and packs them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

NOTE = (
    "converted (quantize=True): PyTorch has quantized kernels for the CPU alone, so on MPS the run stops at the first "
    "of them; with quantize=False, as in training, the model is an ordinary one"
)
TRAINED = "not converted (quantize=False): trained in floating point"


@contextmanager
def with_real_weights() -> Iterator[None]:
    """What is made in here is real and on the CPU, whatever device torch is asked for by a context.

    ``quantize_model`` of torchvision chooses an engine for the whole process, and ``torch.ao.quantization`` warns that
    it will move to another package: both are undone.
    """
    engine = torch.backends.quantized.engine
    try:
        with torch._C.DisableTorchFunction(), warnings.catch_warnings():  # devices and modes are torch functions
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.backends.quantized.engine = engine
