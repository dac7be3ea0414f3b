"""What people wrote about calls on MPS, and what mpsprobe says about the same calls.

Three sets, chosen from issue threads and pull requests without a look at the code that judges or at the advisories:

- ``calls.toml``: single calls with a dtype, a rank or a size, from PyTorch's own threads;
- ``reports.toml``: what users of models and libraries met, in the calls that the model made;
- ``numbers.toml``: calls whose registered kernel computes something wrong, raises, or ends the process, and calls
  like them that are right. As many more, drawn from the same statements, are kept outside the repository.

A statement has an ``id``, a ``source`` (where it was written), the ``torch`` release it is about, a ``class``, the
``code``, and the ``words`` of the error, of the person or of the pull request. ``macos`` where it is about a version
that a scan does not assume, ``chip`` where the person says that it matters; no chip is judged.

In the first two sets, ``expected`` is ``native``, ``missing``, ``fallback``, ``unsupported``, or ``aborts`` where the
process ends on a Mac; its verdict is ``unsupported`` too. In ``numbers.toml`` the class says what is expected:

- ``numbers``: an advisory is about one of the calls;
- ``raises``, ``crash``: a call is ``unsupported``; that a kernel is missing or falls back does not agree;
- ``right``: no advisory is about a call, none is ``unsupported``, and the code runs to its end.

``disagreements.toml`` holds those that mpsprobe is known not to agree with; it is written by
``python benchmarks/statements.py --write``.
"""

from __future__ import annotations

import tomllib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from packaging.version import Version
from torch import nn

from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.devices.virtual.execution import Outcomes
from mpsprobe_coverage.knowledge.advisories.store import named
from mpsprobe_coverage.knowledge.judging.chain import Chain
from mpsprobe_coverage.knowledge.kernels.mps import load_table

HERE = Path(__file__).parent
SETS = ("calls", "reports", "numbers")
OUTCOMES = ("numbers", "raises", "crash", "right")
CLASSES = ("dtype", "rank", "size", "mixed device", "fallback", "gradient", "model", *OUTCOMES)
EXPECTED = ("native", "missing", "fallback", "unsupported", "aborts")
DISAGREEMENTS = HERE / "disagreements.toml"
WORST = ("unsupported", "missing", "fallback", "unknown", "native")


@dataclass(frozen=True)
class Statement:
    """One statement; the fields are those of the file, ``set`` is the file's name."""

    set: str
    id: str
    source: str
    torch: str
    kind: str
    code: str
    words: str
    expected: str | None = None  # of a class that is none of OUTCOMES
    macos: str | None = None
    chip: str | None = None

    @property
    def wanted(self) -> str:
        """What is expected, in a word."""
        return self.expected or self.kind


@dataclass(frozen=True)
class Judged:
    """A statement, the worst verdict on its calls and the advisories about them.

    The verdict is ``stopped``, with the error, where the run ended without one.
    """

    statement: Statement
    says: str
    because: str
    advisories: tuple[str, ...] = ()

    @property
    def agrees(self) -> bool:
        match self.statement.wanted:
            case "numbers":
                return bool(self.advisories)
            case "right":
                return not self.advisories and self.says not in ("unsupported", "stopped")
            case "raises" | "crash" | "aborts":
                return self.says == "unsupported"
            case verdict:
                return self.says == verdict


def statements(*files: Path) -> list[Statement]:
    """The statements of ``files``, as they are written; all sets where none is given."""
    return [
        Statement(file.stem, kind=entry.pop("class"), **entry)
        for file in files or [HERE / f"{name}.toml" for name in SETS]
        for entry in tomllib.loads(file.read_text(encoding="utf-8"))["statement"]
    ]


def judged(chosen: Iterable[Statement]) -> Iterator[Judged]:
    """Run each statement's code on the virtual device of its release, one device for each release."""
    outcomes: Outcomes = {}
    for (release, macos), group in groupby(sorted(chosen, key=_target), key=_target):
        table = load_table(release)
        chain = Chain(table, table.family.loaded_libraries(release), macos=Version(macos) if macos else None)
        with VirtualDevice(chain, outcomes=outcomes) as device:
            for statement in group:
                found = _judge(statement, device)
                known = (
                    one for one in named(found.advisories) if one.affects(release, table.macos_minimum, statement.macos)
                )
                yield replace(found, advisories=tuple(one.id for one in known))


def known_disagreements() -> dict[str, str]:
    """Identifier → what mpsprobe said when the list was written; ``tracer`` is the torch of that run."""
    return tomllib.loads(DISAGREEMENTS.read_text(encoding="utf-8"))


def tracer() -> str:
    """The torch that traces, without what kind of build it is."""
    return Version(torch.__version__).base_version


def _target(statement: Statement) -> tuple[str, str]:
    return statement.torch, statement.macos or ""


def _judge(statement: Statement, device: VirtualDevice) -> Judged:
    error: Exception | None = None
    names = {"torch": torch, "nn": nn, "F": nn.functional, "ones": _ones}
    with device.recording(statement.id), torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            exec(compile(statement.code, statement.id, "exec"), names)
        except Exception as raised:  # noqa: BLE001 - whatever the code raises is what is said about it
            error = raised
    calls = [record for record in device.recorder.calls() if record.phase == statement.id]
    advised = (one.advisory for one in device.recorder.advisories() if one.phase == statement.id)
    advisories = tuple(dict.fromkeys(advised))
    found = min(calls, key=lambda record: WORST.index(record.judgement.verdict), default=None)
    verdict: str = found.judgement.verdict if found else "native"
    because = f"{found.operator}: {found.judgement.reason}" if found and found.judgement.reason else ""
    if error is not None and verdict not in ("unsupported", "missing"):
        verdict, because = "stopped", f"{type(error).__name__}: {str(error).splitlines()[0][:150]}"
    return Judged(statement, verdict, because, advisories)


def _ones(*shape: int, dtype: torch.dtype = torch.float32, **more: Any) -> torch.Tensor:
    return torch.ones(*shape, dtype=dtype, device="mps", **more)
