"""Dtypes that a release refuses wherever they turn up.

A family says what none of its releases has (MPS: 64-bit floating point), a plugin's table what its release has not. On
MPS bfloat16 is refused by the releases whose library says "BFloat16 is not supported on MPS" (the marker
``bfloat16_refused``), in ``empty_mps``. What single kernels refuse is in ``guard.py`` and its neighbours.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

import torch

from mpsprobe.errors import PluginError
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.kernels.dtypes import MARKED
from mpsprobe_coverage.knowledge.kernels.mps import releases_marked
from mpsprobe_coverage.knowledge.kernels.releases import since_without_gap, torch_releases
from mpsprobe_coverage.knowledge.kernels.table import KernelTable


def rules_of(table: KernelTable) -> tuple[Rule, ...]:
    """The rule of the release of ``table``, the same for every operator."""
    judgements = {}
    for name, why in {**table.family.refused_dtypes, **table.refused_dtypes}.items():
        dtype = getattr(torch, name, None)
        if not isinstance(dtype, torch.dtype):
            raise PluginError(f"{table.source} refuses the dtype '{name}', which torch does not have")
        judgements[dtype] = _refused(name, why)
    for marker, name in MARKED.items():
        if marker in table.markers:
            why = f"torch {table.release} refuses {name} on MPS"
            judgements[getattr(torch, name)] = _refused(name, why, _first_without(marker))
    dtypes = frozenset(judgements)
    return (Rule("dtype", _refuse, about=(judgements,), dtypes=dtypes),) if judgements else ()


def _refuse(call: Call, judgements: Mapping[torch.dtype, Judgement]) -> Judgement | None:
    """A call that makes, or without results reads, a tensor of such a dtype."""
    for spec in call.outputs or call.inputs:
        judgement = judgements.get(spec.dtype)
        if judgement is not None:
            return judgement
    return None


def _refused(name: str, why: str, accepted_since: str | None = None) -> Judgement:
    return refused(f"a {name} tensor: {why}", accepted_since, source="dtype", evidence=name)


@functools.cache
def _first_without(marker: str) -> str | None:
    return since_without_gap(torch_releases(), lambda release: release not in releases_marked(marker))
