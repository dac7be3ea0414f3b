"""``torch.compile`` with inductor, which makes Metal shaders on a Mac."""

from __future__ import annotations

import logging
from typing import Any

import torch

from mpsprobe_coverage.devices.virtual.mps_in_python import Replace

_log = logging.getLogger(__name__)


def compiled_eagerly(replace: Replace) -> None:
    """Run what inductor would compile for MPS operator by operator, and say so once.

    A Mac runs shaders of its own there, which no table has; graphs without a tensor of MPS are compiled as ever.
    """
    wrapper = torch._TorchCompileInductorWrapper
    compiled = wrapper.__call__
    said = False

    def call(self: Any, model_: Any, inputs_: Any, **options: Any) -> Any:
        nonlocal said
        known = [*inputs_, *(model_.buffers() if isinstance(model_, torch.nn.Module) else ())]
        nodes = model_.graph.nodes if isinstance(model_, torch.fx.GraphModule) else ()
        known += [node.meta.get("example_value") for node in nodes]
        if not any(isinstance(one, torch.Tensor) and one.device.type == "mps" for one in known):
            return compiled(self, model_, inputs_, **options)
        if not said:
            _log.warning(
                "torch.compile makes Metal shaders on a Mac. The virtual device runs the same operators one by one, "
                "and the report has those."
            )
            said = True
        return model_.forward if isinstance(model_, torch.nn.Module) else model_

    replace(wrapper, "__call__", call)
