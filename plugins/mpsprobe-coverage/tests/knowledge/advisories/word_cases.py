"""For each word of conditions a call of which it holds and one next to it, as advisories of the user's own.

As a script it makes the calls on the native device, which needs a process of its own, and writes down what was wrong.
"""

from __future__ import annotations

import json
import math
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

HERE = torch.device("mps", 0)
Call = Callable[[], object]
ENTRY = """
[[advisory]]
id = "word-{number}"
title = "A word"
operators = ["{operator}"]
when = {when}
condition = "it holds"
symptom = "Wrong."
workaround = "None."
torch = {{ since = "2.7.0", open = true }}
macos = {{}}
basis = "Made up."
sources = ["https://example.org"]
"""


class Case(NamedTuple):
    operator: str
    condition: list[Any]
    hit: Call
    miss: Call


def _made(*shape: int, **options: Any) -> torch.Tensor:
    return torch.zeros(shape, device=HERE, **options)


def _of(make: Callable[[], torch.Tensor]) -> Call:
    return lambda: torch.sin(make())


def _filled(*values: float) -> torch.Tensor:
    return torch.tensor(values, device=HERE)


def _mask(*rows: list[bool]) -> Call:
    return lambda: torch.where(torch.tensor(rows, device=HERE), _made(2), _made(2))


def _with(part: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    """The first half of a tensor, multiplied with ``part`` of that."""

    def run() -> object:
        whole = _made(8)
        return whole[:4] * part(whole)

    return run


def _in_a_thread(call: Call) -> Call:
    def run() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()

    return run


def _joined(*tensors: Callable[[], torch.Tensor]) -> Call:
    return lambda: torch.cat([make() for make in tensors])


def _square(changed: Callable[[torch.Tensor], torch.Tensor]) -> Call:
    return lambda: torch.mm(changed(_made(2, 2, dtype=torch.complex64)), _made(2, 2, dtype=torch.complex64))


def _plain() -> torch.Tensor:
    return _made(2, 4)


SIN, CAT, MUL = "aten::sin", "aten::cat", "aten::mul.Tensor"
CASES = [
    Case(SIN, ["self.offset", ">", 0], _of(lambda: _made(8)[2:]), _of(lambda: _made(8)[:6])),
    Case(SIN, ["self.offset", "==", 7], _of(lambda: _made(4, 4)[1:][:, 1:].t()[2:]), _of(lambda: _made(4, 4)[1:].t())),
    Case(SIN, ["self.offset", "==", 3], _of(lambda: _made(9)[1:].as_strided((2,), (1,), 3)), _of(lambda: _made(9)[1:])),
    Case(SIN, ["self.offset", "==", 4], _of(lambda: _made(8).chunk(2)[1]), _of(lambda: _made(8).chunk(2)[0])),
    Case(SIN, ["self.stride[-1]", "==", 2], _of(lambda: _made(8)[::2]), _of(lambda: _made(8))),
    Case(SIN, ["self.bytes", ">=", 32], _of(_plain), _of(lambda: _made(7))),
    Case(SIN, ["self", "is", "transposed"], _of(lambda: _plain().mT), _of(_plain)),
    Case(SIN, ["self", "is", "strided"], _of(lambda: _plain()[:, 1:]), _of(lambda: _plain().mT)),
    Case(
        SIN, ["self", "is", "overlapping"], _of(lambda: _made(8).unfold(0, 4, 1)), _of(lambda: _made(8).unfold(0, 4, 4))
    ),
    Case(SIN, ["self", "is", "a view"], _of(lambda: _made(8)[:4]), _of(lambda: _made(8).view(2, 4))),
    Case("aten::mm", ["self", "is", "conjugated"], _square(torch.conj), _square(torch.clone)),
    Case(SIN, ["self.min", "<", 0], _of(lambda: _filled(1.0, -1.0)), _of(lambda: _filled(1.0, 0.0))),
    Case(SIN, ["self.range", "<=", 1], _of(lambda: _filled(5.0, 6.0)), _of(lambda: _filled(5.0, 7.0))),
    Case(SIN, ["self", "contains", 6], _of(lambda: _filled(5.0, 6.0)), _of(lambda: _filled(5.0, 7.0))),
    Case("aten::eq.Scalar", ["self", "contains", "other"], lambda: _filled(1, 3) == 3, lambda: _filled(1, 3) == 2),
    Case(SIN, ["self.max", ">=", 2], _of(lambda: _filled(1.0, 2.0)), _of(lambda: _filled(1.0, 0.0))),
    Case(
        SIN,
        ["self.max", "==", 2],
        _of(lambda: torch.tensor([-2j], device=HERE)),
        _of(lambda: torch.tensor([-1j], device=HERE)),
    ),
    Case(SIN, ["self", "is", "with nan"], _of(lambda: _filled(math.nan)), _of(lambda: _filled(math.inf))),
    Case(SIN, ["self", "is", "with inf"], _of(lambda: _filled(-math.inf)), _of(lambda: _filled(math.nan))),
    Case(SIN, ["caller", "in", ["grad"]], _of(lambda: _made(2, requires_grad=True)), _of(lambda: _made(2))),
    Case(SIN, ["caller", "in", ["another thread"]], _in_a_thread(_of(_plain)), _of(_plain)),
    Case(SIN, ["caller", "in", ["captured"]], lambda: torch.compile(torch.sin)(_plain()), _of(_plain)),
    Case(
        "aten::where.self",
        ["condition", "is", "with a masked row"],
        _mask([True, False], [False, False]),
        _mask([True, False], [False, True]),
    ),
    Case(MUL, ["self", "shares memory with", "other"], _with(lambda a: a[3:7]), _with(lambda a: a[4:])),
    Case(MUL, ["self", "does not share memory with", "other"], _with(lambda a: a[4:]), _with(lambda a: a[:4])),
    Case(CAT, ["tensors.length", ">", 2], _joined(_plain, _plain, _plain), _joined(_plain, _plain)),
    Case(CAT, ["tensors[1]", "is", "transposed"], _joined(_plain, lambda: _made(4, 2).mT), _joined(_plain, _plain)),
    Case(CAT, ["tensors[*][0]", "==", 3], _joined(_plain, lambda: _made(3, 4)), _joined(_plain, _plain)),
    Case(CAT, ["tensors[*].offset", ">", 0], _joined(_plain, lambda: _plain()[1:]), _joined(_plain, _plain)),
    Case(MUL, ["self.dtype", "!=", "other.dtype"], lambda: _plain() * _made(4).half(), lambda: _plain() * _made(4)),
    Case(MUL, ["other.device", "in", ["cpu"]], lambda: _plain() * torch.tensor(2.0), lambda: _plain() * _made()),
]


def write(folder: Path) -> None:
    """As the advisories of the user's own in ``folder``."""
    entries = [
        ENTRY.format(number=number, operator=one.operator, when=[one.condition]) for number, one in enumerate(CASES)
    ]
    (folder / "mine.toml").write_text("".join(entries))
    (folder / "pyproject.toml").write_text('[tool.mpsprobe]\nadvisories = ["mine.toml"]\n')


def wrong(recorder: Callable[[], Any]) -> list[str]:
    """The words that did not hold where they should, or held elsewhere."""
    found = []

    def calls(number: int) -> int:
        every = Counter[str]()
        for one in recorder().advisories():
            every[one.advisory] += 0 if one.undecided else one.calls
        return every[f"word-{number}"]

    for number, case in enumerate(CASES):
        before = calls(number)
        for made in (case.hit, case.hit, case.miss, case.hit):  # alike but for what is asked, in one cache
            made()
        if calls(number) - before != 3:
            found.append(f"{case.condition}: {calls(number) - before}")
    return found


def main() -> None:
    from mpsprobe_coverage.devices.native.device import NativeDevice
    from mpsprobe_coverage.knowledge.judging.chain import Chain
    from mpsprobe_coverage.knowledge.kernels.mps import load_table

    write(Path.cwd())
    with NativeDevice(Chain(load_table("2.13.0"))) as device:

        def recorder() -> Any:
            device.finish()
            return device.recorder

        Path(sys.argv[1]).write_text(json.dumps(wrong(recorder)))


if __name__ == "__main__":
    main()
