"""Pairs of small models for the advisories of copies: see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _filled(first: int, value: float | None, dtype: torch.dtype = torch.float32) -> Function:
    """All but the ``first`` elements are filled; with zeros by ``zero_`` where there is no ``value``."""

    def fill(x: torch.Tensor) -> torch.Tensor:
        return x[first:].zero_() if value is None else x[first:].fill_(value)

    return _of(fill, (16,), dtype=dtype)


def _to_cpu(first: int = 0, step: int = 1) -> Function:
    return lambda x: torch.zeros(20)[first::step].copy_(x.new_zeros(20)[first::step])


def _cast(first: int) -> Function:
    return _of(lambda x: x[first:].half(), (8,))


def _joined(dtype: torch.dtype, rows: int = 2, columns: int = 4) -> Function:
    return _of(lambda *parts: torch.cat(parts, dim=1), *[(rows, columns)] * 2, dtype=dtype)


def _padded(*sizes: int) -> Function:
    return _of(functional.pad, (3, 4, 5), pad=sizes)


def _replicated(batch: int) -> Function:
    return lambda x: functional.pad(x.new_zeros(batch, 2, 4) + x.sum(), (3, 4), mode="replicate")


def _assigned(layers: int) -> Function:
    """One place of a cache of that many layers is written."""
    shape = (32, layers, 8, 4096, 128)
    return _of(lambda cache: cache[:, :1, :, :1].copy_(torch.ones_like(cache[:, :1, :, :1])), shape, dtype=torch.half)


def _set(first: int) -> Function:
    return _of(lambda x: x[first:].fill_(3), (4,))


PAIRS = {
    "copy-to-cpu-strided": Pair("2.13.0", _to_cpu(step=2), _to_cpu()),
    "cat-above-31-bits": Pair("2.13.0", *(_joined(torch.int8, rows, 32768) for rows in (32769, 32768))),
    "cat-bool": Pair("1.12.0", _joined(torch.bool), _joined(torch.int32)),
    "stack-elements": Pair("1.13.1", _of(lambda x: torch.stack([*x]), (3,)), _of(lambda x: torch.stack([*x]), (3, 2))),
    "cast-of-a-slice": Pair("1.13.1", _cast(2), _cast(0)),
    "fill-offset": Pair("1.13.1", _filled(2, 1), _filled(0, 1)),
    "copy-to-cpu-offset": Pair("2.1.0", _to_cpu(2), _to_cpu()),
    "pad-every-dimension": Pair("1.13.0", _padded(0, 0, 0, 1, 0, 0), _padded(0, 0, 0, 1)),
    "replication-pad-gradient-batch": Pair("2.5.0", _replicated(65536), _replicated(65535), "training"),
    "flip-size-one": Pair("2.0.0", *(_of(torch.flip, (rows, 3), dims=[0]) for rows in (1, 2))),
    "copy-strided-above-32-bits": Pair("2.12.0", _assigned(48), _assigned(8)),
    "fill-macos-14-4": Pair("2.2.2", _set(1), _set(0)),
}
