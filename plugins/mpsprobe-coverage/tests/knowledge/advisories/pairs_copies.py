"""Pairs of ``copies.toml``; see ``pairs.py``."""

from __future__ import annotations

import torch
from pairs import Function, Pair, _of
from torch.nn import functional


def _joined(layout: torch.memory_format) -> Function:
    return lambda x: torch.cat([x.new_zeros(1, 3, 4, 4).contiguous(memory_format=layout)] * 2)


def _expanded(dtype: torch.dtype) -> Function:
    return lambda x: x.new_zeros(2, 1, dtype=dtype).expand(2, 2).contiguous()


def _filled(value: int) -> Function:
    return lambda x: torch.full((2, 2), value, dtype=torch.uint8, device=x.device)


def _filled_slice(first: int, value: float | None, dtype: torch.dtype = torch.float32) -> Function:
    """All but the ``first`` elements are filled; with zeros by ``zero_`` where there is no ``value``."""

    def fill(x: torch.Tensor) -> torch.Tensor:
        return x[first:].zero_() if value is None else x[first:].fill_(value)

    return _of(fill, (16,), dtype=dtype)


def _to_cpu(first: int = 0, step: int = 1, dtype: torch.dtype = torch.float32) -> Function:
    return lambda x: torch.zeros(20, dtype=dtype)[first::step].copy_(x.new_zeros(20)[first::step])


def _cast(first: int) -> Function:
    return _of(lambda x: x[first:].half(), (8,))


def _joined_slices(dtype: torch.dtype, rows: int = 2, columns: int = 4) -> Function:
    return _of(lambda *parts: torch.cat(parts, dim=1), *[(rows, columns)] * 2, dtype=dtype)


def _padded(*sizes: int) -> Function:
    return _of(functional.pad, (3, 4, 5), pad=sizes)


def _replicated(batch: int) -> Function:
    return lambda x: functional.pad(x.new_zeros(batch, 2, 4) + x.sum(), (3, 4), mode="replicate")


def _assigned(layers: int) -> Function:
    """One place of a cache of that many layers is written."""
    shape = (32, layers, 8, 4096, 128)
    return _of(lambda cache: cache[:, :1, :, :1].copy_(torch.ones_like(cache[:, :1, :, :1])), shape, dtype=torch.half)


def _repeated(*shape: int) -> Function:
    """Into a batch of two square matrices."""
    return _of(lambda part: part.new_zeros(2, 3, 3).copy_(part), shape)


def _set(first: int) -> Function:
    return _of(lambda x: x[first:].fill_(3), (4,))


def _moved(elements: int) -> Function:
    return lambda x: torch.empty(elements, device="cpu").to(x.device)


def _reflected(samples: int) -> Function:
    return lambda x: functional.pad(x.new_zeros(1, 1, samples) + x.sum(), (2, 2), mode="reflect")


def _framed(width: int) -> Function:
    """Frames whose width and height get one pixel on both sides, and one more frame before the first."""
    return lambda x: functional.pad(x.new_zeros(1, 1, 4, 254, width), (1, 1, 1, 1, 1, 0), mode="replicate")


def _wrapped(value: float) -> Function:
    return lambda x: x.new_zeros(3, dtype=torch.uint8).copy_(x.new_full((), value))


PAIRS = {
    "write-strided-view-1-12": Pair(
        "1.12.0", lambda x: x.new_zeros(4, 6)[:, 0].copy_(x.new_zeros(4)), lambda x: x.new_zeros(4, 6)[0].copy_(x[0, 0])
    ),
    "copy-broadcast-dims": Pair(
        "1.13.1",
        lambda x: functional.affine_grid(x.new_zeros(1, 2, 3), [1, 3, 4, 4], align_corners=False),
        _repeated(2, 3, 3),
    ),
    "copy-broadcast-one": Pair("2.0.1", _repeated(2, 1, 3), _repeated(3, 3)),
    "copy-cast-offset": Pair(
        "2.0.0",
        lambda x: x.new_zeros(5)[2:4].copy_(x.new_zeros(2, dtype=torch.int64)),
        lambda x: x.new_zeros(5)[2:4].copy_(x.new_zeros(2)),
    ),
    "stack-offset-slices": Pair(
        "1.13.1",
        lambda x: torch.stack(x.new_zeros(4).split(2), dim=-1),
        lambda x: torch.stack(x.new_zeros(4).split(2), dim=0),
    ),
    "fill-permuted-1-13": Pair(
        "1.13.1",
        lambda x: torch.zeros_like(x.new_zeros(3, 2, 2).permute(2, 0, 1)),
        lambda x: torch.zeros_like(x.new_zeros(3, 2, 2)),
    ),
    "fill-cpu-number-1-12": Pair(
        "1.12.1",
        *(lambda x, device=device: x.new_zeros(3).fill_(torch.ones((), device=device)) for device in ("cpu", "mps")),
    ),
    "fill-zero-overrun": Pair(
        "2.1.1", lambda x: x.new_zeros(1, 10)[:, 9].fill_(0), lambda x: x.new_zeros(1, 10)[:, 9].fill_(1)
    ),
    "zero-slice-overrun": Pair(
        "2.1.1", lambda x: x.new_zeros(1, 10)[:, 9].zero_(), lambda x: x.new_zeros(1, 10)[:, 0].zero_()
    ),
    "fill-bytes-offset": Pair(
        "2.12.0",
        lambda x: x.new_zeros(16, dtype=torch.bool)[1:].fill_(True),
        lambda x: x.new_zeros(16, dtype=torch.bool)[4:].fill_(True),
    ),
    "arange-into-slice": Pair(
        "2.4.0",
        lambda x: torch.fft.fftfreq(10, device=x.device),
        lambda x: torch.arange(0, 5, out=x.new_zeros(10)[:5]),
    ),
    "cat-strided-1-12": Pair("1.12.1", lambda x: torch.cat([x.new_zeros(4, 4).t()] * 2), lambda x: torch.cat([x] * 2)),
    "cat-channels-last-1-13": Pair("1.13.0", _joined(torch.channels_last), _joined(torch.contiguous_format)),
    "copy-expanded-bytes-1-12": Pair("1.12.0", _expanded(torch.bool), _expanded(torch.int8)),
    "fill-bool-1-12": Pair(
        "1.12.0",
        lambda x: torch.full((3,), True, device=x.device),
        lambda x: torch.full((3,), 1, dtype=torch.int8, device=x.device),
    ),
    "fill-uint8-1-12": Pair("1.12.1", _filled(247), _filled(127)),
    "copy-bool-six-dims": Pair(
        "2.2.1",
        lambda x: x.new_zeros([2] * 6, dtype=torch.bool).transpose(0, 1).contiguous(),
        lambda x: x.new_zeros([2] * 5, dtype=torch.bool).transpose(0, 1).contiguous(),
    ),
    "fill-above-4-gib-macos-26": Pair(
        "2.8.0",
        lambda x: torch.ones(2, 2**31 + 5, dtype=torch.int8, device=x.device),
        lambda x: torch.ones(2, 2**31, dtype=torch.int8, device=x.device),
    ),
    "pad-empty-list": Pair("2.8.0", lambda x: torch.constant_pad_nd(x, []), lambda x: torch.constant_pad_nd(x, [1, 1])),
    "pad-four-dims-1-13": Pair(
        "1.13.0",
        lambda x: torch.constant_pad_nd(x.new_zeros([2] * 6), [0] * 8),
        lambda x: torch.constant_pad_nd(x.new_zeros([2] * 6), [0] * 6),
    ),
    "copy-to-cpu-cast-1-12": Pair(
        "1.12.0",
        lambda x: torch.zeros(4, dtype=torch.int64).copy_(x.new_zeros(4)),
        lambda x: torch.zeros(4).copy_(x.new_zeros(4)),
    ),
    "copy-from-cpu-offset-1-12": Pair(
        "1.12.1", lambda x: torch.arange(2)[1].to(x.device), lambda x: torch.arange(2)[0].to(x.device)
    ),
    "copy-from-cpu-permuted-1-12": Pair(
        "1.12.1", lambda x: torch.zeros(2, 3).t().to(x.device), lambda x: torch.zeros(2, 3).to(x.device)
    ),
    "copy-from-cpu-into-strided-1-12": Pair(
        "1.12.1", *(lambda x, step=step: x.new_zeros(6)[2::step].copy_(torch.zeros(4 // step)) for step in (2, 1))
    ),
    "copy-to-cpu-strided": Pair("2.13.0", _to_cpu(step=2), _to_cpu()),
    "cat-above-31-bits": Pair("2.13.0", *(_joined_slices(torch.int8, rows, 32768) for rows in (32769, 32768))),
    "cat-bool": Pair("1.12.0", _joined_slices(torch.bool), _joined_slices(torch.int32)),
    "cast-of-a-slice": Pair("1.13.1", _cast(2), _cast(0)),
    "fill-offset": Pair("1.13.1", _filled_slice(2, 1), _filled_slice(0, 1)),
    "copy-to-cpu-offset": Pair("2.1.0", _to_cpu(2), _to_cpu()),
    "copy-to-cpu-unaligned": Pair("2.15.0", *(_to_cpu(first, dtype=torch.half) for first in (1, 2))),
    "pad-every-dimension": Pair("1.13.0", _padded(0, 0, 0, 1, 0, 0), _padded(0, 0, 0, 1)),
    "replication-pad-gradient-batch": Pair("2.5.0", _replicated(65536), _replicated(65535), "training"),
    "flip-size-one": Pair("2.0.0", *(_of(torch.flip, (rows, 3), dims=[0]) for rows in (1, 2))),
    "copy-strided-above-32-bits": Pair("2.12.0", _assigned(48), _assigned(8)),
    "fill-macos-14-4": Pair("2.2.2", _set(1), _set(0)),
    "copy-to-mps-4-gib": Pair("2.2.2", *(_moved(elements) for elements in (2**30, 2**30 - 1))),
    "cat-empty-1-12": Pair("1.12.0", *(lambda x, rows=rows: torch.cat([x.new_zeros(rows), x]) for rows in (0, 1))),
    "replication-pad-wider-than-input": Pair(
        "2.0.1", *(_of(functional.pad, (1, 1, 3, 32, 32), pad=(2, 2) * 2 + (n, n), mode="replicate") for n in (3, 2))
    ),
    "pad-long-vector": Pair(
        "2.2.1", *(lambda x, size=size: functional.pad(x.new_zeros(size), (0, 1)) for size in (65535, 65534))
    ),
    "reflection-pad-gradient-long": Pair("2.14.0", _reflected(65537), _reflected(131072), "training"),
    "pad-volume-other-modes": Pair("2.13.0", _framed(254), _framed(253)),
    "copy-negative-to-uint8": Pair("2.8.0", _wrapped(-1.0), _wrapped(1.0)),
}
