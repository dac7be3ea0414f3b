"""A device's result next to the CPU's and to the float64 one: how far away, and whether that is wrong."""

from __future__ import annotations

import functools
import math
import tomllib
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any, NamedTuple

import torch

from mpsprobe_coverage.knowledge.calls.spec import dtype_name
from mpsprobe_coverage.verifying.copying import PIECE, alike, fetched, to_device

NOISE = 4.0
"""A device may be so many times as far from float64 as the CPU, or as inputs rounded once more: all of these round."""
FAINT = 1e-15
"""A norm below which squares of elements may be too small for float32."""
TESTS_DEFAULT = "torch.testing.assert_close"


class Tolerance(NamedTuple):
    """What PyTorch's tests allow: ``rtol`` is relative to the element, ``atol`` to the tensor's root mean square."""

    rtol: float
    atol: float
    source: str


EXACT = Tolerance(0.0, 0.0, TESTS_DEFAULT)


@functools.cache
def _data() -> dict[str, Any]:
    return tomllib.loads((files(__package__) / "tolerances.toml").read_text(encoding="utf-8"))


@functools.cache
def tolerance_of(operator: str, dtype: torch.dtype) -> Tolerance:
    """That of ``aten::mm`` (with or without an overload) for results of ``dtype``; ``EXACT`` for whole numbers."""
    name, kind = operator.partition("::")[2].partition(".")[0], dtype_name(dtype)
    name = name.removeprefix("_foreach_")
    for entry in _data()["mps"]:
        if kind in entry and name in entry["operators"]:
            return Tolerance(source=entry["source"], **entry[kind])
    usual = _data()["default"].get(kind)
    return EXACT if usual is None else Tolerance(source=TESTS_DEFAULT, **usual)


@functools.cache
def smallest(dtype: torch.dtype) -> float:
    """What is lost where a number of ``dtype`` becomes zero.

    The smallest one that it has; where that is below float32's normal ones, one of these: GPUs take less as zero.
    """
    about = torch.finfo(dtype)
    return max(about.smallest_normal * about.eps, torch.finfo(torch.float32).smallest_normal)


class Wrong(NamedTuple):
    """What is wrong of one result, by the names that ``WrongOperator`` has."""

    excess: float
    error: float
    cpu_error: float
    elements: int
    of_elements: int
    at: tuple[int, ...] = ()
    got: float = 0.0
    expected: float = 0.0
    why: str = ""

    def fields(self) -> dict[str, Any]:
        return {
            name: finite(figure) if isinstance(figure, float) else figure for name, figure in self._asdict().items()
        }


def compared(
    got: torch.Tensor,
    exact: torch.Tensor,
    on_cpu: Callable[[], torch.Tensor | None],
    allowed: Tolerance,
    unsure: Callable[[], list[torch.Tensor]] = list,
) -> Wrong | None:
    """What is wrong of ``got``; ``None`` where nothing is.

    An element is wrong if it is farther from ``exact`` than tolerance, and than ``NOISE`` times the CPU's largest error
    or what rounding changes, where these are more; while the CPU's own is within tolerance.

    Args:
        got: the device's result, on the CPU.
        exact: computed in float64 from the same inputs; for whole numbers, by the CPU.
        on_cpu: computes it on the CPU in the dtype of ``got``; called only where ``got`` is beyond tolerance.
        unsure: how far off each element may be in any kernel, as inputs and sums are rounded; called likewise. What has
            more than one bound is right within one of them.
    """
    if got.shape != exact.shape:
        why = f"its shape is {tuple(got.shape)}, not {tuple(exact.shape)}"
        return Wrong(math.inf, math.inf, 0.0, got.numel(), got.numel(), why=why)
    if not (got.is_floating_point() or got.is_complex()):
        return _worst(torch.where(got != exact.to(got.dtype), math.inf, 0.0), got, exact, 0.0)
    if all_within(got, exact, allowed):
        return None
    wide = torch.complex128 if got.is_complex() else torch.float64
    device, judge = got.to(wide), exact.to(wide)
    bound = _bound(judge, allowed, got.dtype)
    excess = _excess(device, judge, bound, got.dtype)
    if float(excess.max()) <= 1.0:
        return None
    same = on_cpu()
    cpu_error = 0.0
    if same is not None and same.shape == got.shape:
        by_cpu = _excess(same.to(wide), judge, bound, got.dtype)
        excess = torch.where(by_cpu <= 1.0, excess, 0.0) / max(1.0, NOISE * _largest(by_cpu))
        cpu_error = _largest((same.to(wide) - judge).abs())
    for off in unsure() if float(excess.max()) > 1.0 else ():
        excess = torch.where((device - judge).abs() < off, 0.0, excess)
    return _worst(excess, got, exact, cpu_error)


def all_within(got: torch.Tensor, exact: torch.Tensor, allowed: Tolerance, share: float = 1.0) -> bool:
    """Whether no element is beyond ``share`` of tolerance; ``got`` may lie on a device.

    False also where something is infinite.
    """
    scale = _norm(exact) / math.sqrt(max(1, exact.numel()))
    if not math.isfinite(scale):
        return False
    everywhere = share * (allowed.atol * scale + smallest(got.dtype))
    for part, right in _pieces(got, exact):
        error = part.to(right.dtype).sub_(right)
        if not error.is_complex() and max(map(abs, map(float, torch.aminmax(error)))) <= everywhere:
            continue
        if not bool((error.abs() <= right.abs().mul_(share * allowed.rtol).add_(everywhere)).all()):
            return False
    return True


def _pieces(value: torch.Tensor, right: torch.Tensor) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Both on the CPU, a piece at a time; what is of ``value`` may be written, and is gone with the next one."""
    if not alike(value, right):
        value, right = to_device(value, "cpu").contiguous(), right.contiguous()
    flat, judge = (tensor.detach().as_strided((tensor.numel(),), (1,)) for tensor in (value, right))
    yield from zip(fetched(flat), judge.split(PIECE), strict=True) if flat.numel() else ()


def _largest(values: torch.Tensor) -> float:
    """Of those that are finite, and none below zero."""
    return float(torch.where(torch.isfinite(values), values, 0.0).max())


def _bound(exact: torch.Tensor, allowed: Tolerance, dtype: torch.dtype) -> torch.Tensor:
    size = exact.abs()
    finite = torch.where(torch.isfinite(size), size, 0.0)
    scale = float(finite.square().mean().sqrt())
    return finite.mul_(allowed.rtol).add_(allowed.atol * scale + smallest(dtype))


def _excess(value: torch.Tensor, exact: torch.Tensor, bound: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The error of each element as a multiple of its bound: zero where neither is finite, in the same way."""
    found = (value - exact).abs_().div_(bound)
    strange = ~torch.isfinite(found)
    if strange.any():
        narrow = exact.to(dtype).to(exact.dtype)  # beyond the range of the dtype it is infinite
        alike = (value == narrow) | (value.isnan() & narrow.isnan())
        found = torch.where(strange, torch.where(alike, 0.0, math.inf), found)
    return found


def _worst(excess: torch.Tensor, got: torch.Tensor, exact: torch.Tensor, cpu_error: float) -> Wrong | None:
    excess = torch.nan_to_num(excess, nan=0.0, posinf=math.inf)
    wrong = excess > 1.0
    if not (count := int(wrong.sum())):
        return None
    flat = int(excess.argmax())
    at = tuple(int(index) for index in torch.unravel_index(torch.tensor(flat), excess.shape)) if excess.dim() else ()
    device, judge = (tensor.to(torch.complex128 if got.is_complex() else torch.float64) for tensor in (got, exact))
    error = float((device - judge).abs()[wrong].nan_to_num(nan=math.inf, posinf=math.inf).max())
    numbers = (tensor.reshape(-1)[flat] for tensor in (got, exact))
    there, right = (float(number.abs() if number.is_complex() else number) for number in numbers)
    return Wrong(float(excess.max()), error, cpu_error, count, got.numel(), at, there, right)


class Distance(NamedTuple):
    """How far a whole tensor is from the right one: the norm of the difference, relative to the norm of that."""

    relative: float
    nonfinite: int  # elements that are not finite where the right ones are
    away: float = 0.0  # root of the mean square of the difference
    size: float = 0.0  # and of the right one
    both: tuple[torch.Tensor, torch.Tensor] | None = None  # on the CPU, where float64 has to judge them


def distance(value: torch.Tensor, exact: torch.Tensor) -> Distance | None:
    """In the wider of their dtypes; ``None`` where they cannot be compared: another shape, or no floats."""
    if value.shape != exact.shape or not exact.is_floating_point() or not exact.numel():
        return None
    away = size = strange = 0.0
    for part, right in _pieces(value, exact):
        error = part - right
        norms = _norm(error), _norm(right)
        if not all(map(math.isfinite, norms)):
            fine = torch.isfinite(part) & torch.isfinite(right)
            strange += int((~torch.isfinite(part) & torch.isfinite(right)).sum())
            norms = _norm(error[fine]), _norm(right[fine])
        away, size = math.hypot(away, norms[0]), math.hypot(size, norms[1])
    relative = away / size if size else (0.0 if not away else math.inf)
    root = math.sqrt(exact.numel())
    return Distance(relative, int(strange), away / root, size / root)


def _norm(tensor: torch.Tensor) -> float:
    found = float(torch.linalg.vector_norm(tensor))
    if not found or FAINT < found < math.inf:
        return found
    wide = tensor.to(torch.complex128 if tensor.is_complex() else torch.float64)
    return float(torch.linalg.vector_norm(wide))  # float32 has no squares of such elements


def all_finite(value: Any) -> bool:
    """Whether ``value`` has no NaN or infinity; without memory for the answer of each element."""
    some = isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 0
    return not some or all(map(math.isfinite, map(float, torch.aminmax(value))))


def finite(value: float) -> float | None:
    """As reports have numbers: ``None`` where it is none."""
    return value if math.isfinite(value) else None
