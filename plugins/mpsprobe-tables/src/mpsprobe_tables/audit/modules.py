"""The second audit: PyTorch's database of modules on the virtual devices, and what each release's marks expect.

``TestModule`` of test/test_modules.py makes a module, moves it and runs it, in train and eval mode; it compares with no
other device. So a test that is expected to fail fails by what MPS refuses, or by numbers: of those, float16 held to the
tolerance of a reference (pytorch issue 119108) is the usual one. The lists of OpInfo say nothing of modules, so that
here the verdicts are those that a user gets, with the own list of the release.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from mpsprobe.progress import SilentProgress
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.table import KernelTable
from mpsprobe_tables.audit.device import SHADOW_LIMIT, AuditDevice, Seen
from mpsprobe_tables.audit.entries import dtype_named, module_entries
from mpsprobe_tables.audit.procedure import DEVICE, DrawnOnCpu, copy_of, message, undisturbed
from mpsprobe_tables.audit.running import BACKWARD, FORWARD, alike, in_processes
from mpsprobe_tables.module_marks import FORWARD_TEST, GRADIENT_TEST, Mode, ModuleMarks, load_marks

WHAT = "modules"
COMPARED_IN = "float16"
PIECES = 16  # each runs on every release, so that what operators return is worked out once
MOST_INPUTS = 64
"""Of one module, all over its list: ``nn.LinearCrossEntropyLoss`` has 857, which differ in few arguments."""

Outcome = Literal["refused", "raised", "runs"]
Expected = Literal["pass", "fail", "skip", "numbers"]


@dataclass(frozen=True, slots=True)
class ModuleTest:
    """One test of one module."""

    module: str
    dtype: str
    mode: Mode
    gradient: bool
    expected: Expected  # by the marks; ``numbers`` where it fails in float16 alone and is compared with a reference
    outcome: Outcome  # on the virtual device; ``raised`` where that raised and the CPU does too
    cause: str  # the refusing call and why, or the error

    @property
    def agrees(self) -> bool:
        """Whether the outcome is what the marks let expect; of a skipped test they say nothing."""
        return self.expected in ("skip", "numbers") or (self.expected == "fail") == (self.outcome != "runs")


@dataclass(frozen=True)
class ModuleAudit:
    """One release."""

    release: str
    tests: tuple[ModuleTest, ...]
    idle: tuple[str, ...] = ()  # modules whose marks name a class of tests that is none
    internal: tuple[str, ...] = ()  # where the device raised and the CPU does not

    def count(self, expected: Expected, outcome: Outcome | None = None) -> int:
        """How many tests are expected to do one thing, and did another."""
        return sum(test.expected == expected and outcome in (None, test.outcome) for test in self.tests)

    @property
    def refused(self) -> int:
        """How many tests are refused."""
        return sum(test.outcome == "refused" for test in self.tests)

    @property
    def recall(self) -> float:
        """Of the tests expected to fail, the share that is predicted to; from 0 to 1."""
        expected = self.count("fail")
        return 1 - self.count("fail", "runs") / expected if expected else 1.0

    @property
    def precision(self) -> float:
        """Of the tests that are refused, the share that has a mark; from 0 to 1."""
        return 1 - self.count("pass", "refused") / self.refused if self.refused else 1.0

    @property
    def disagreements(self) -> list[ModuleTest]:
        """Tests that do not do what the marks let expect."""
        return [test for test in self.tests if not test.agrees]


def audit_modules(
    releases: Sequence[str], only: Sequence[str], jobs: int, progress: SilentProgress
) -> tuple[ModuleAudit, ...]:
    """The marks of each of ``releases`` against the modules of the installed torch.

    Args:
        only: names of modules; none for all.
        jobs: processes.
    """
    names = [name for name in module_entries() if not only or name in only]
    pieces = [names[first::PIECES] for first in range(PIECES) if names[first::PIECES]]
    progress.start(len(pieces), WHAT)
    audits: list[list[ModuleAudit]] = []
    for done in in_processes(partial(audit_piece, releases), pieces, jobs):
        audits.append(done)
        progress.advance(WHAT)
    return tuple(_together(of_one) for of_one in zip(*audits, strict=True))


def _together(parts: Sequence[ModuleAudit]) -> ModuleAudit:
    """Several pieces of one release, in the order of names."""
    tests = sorted((test for part in parts for test in part.tests), key=lambda test: test.module)
    return replace(parts[0], tests=tuple(tests), internal=tuple(text for part in parts for text in part.internal))


def audit_piece(releases: Sequence[str], names: Sequence[str]) -> list[ModuleAudit]:
    """Some modules on every release, in this process."""
    torch.set_num_threads(1)
    outcomes: dict[Any, Any] = {}
    done: list[tuple[KernelTable, ModuleAudit]] = []
    with undisturbed():
        inputs: dict[tuple[str, str, Mode], list[Any]] = {}
        for release in releases:
            table, marks = load_table(release), load_marks(release)
            twin = next((audit for earlier, audit in done if alike(earlier, table) and _same(earlier, marks)), None)
            if twin is None:
                twin = _audit(table, marks, names, inputs, outcomes)
            done.append((table, replace(twin, release=release)))
    return [audit for _, audit in done]


def _same(earlier: KernelTable, marks: ModuleMarks) -> bool:
    before = load_marks(earlier.release)
    return (before.dtypes, before.modules) == (marks.dtypes, marks.modules)


def _audit(
    table: KernelTable,
    marks: ModuleMarks,
    names: Sequence[str],
    inputs: dict[tuple[str, str, Mode], list[Any]],
    outcomes: dict[Any, Any],
) -> ModuleAudit:
    ran: dict[tuple[str, str, Mode], _Ran] = {}
    with AuditDevice(table, lists="own", shadow_limit=SHADOW_LIMIT, outcomes=outcomes) as device:
        for name, dtype in itertools.product(names, marks.dtypes):
            for mode in _modes(module_entries()[name]) if name in marks.modules else ():
                key = name, dtype, mode
                if key not in inputs:
                    inputs[key] = _inputs(module_entries()[name], dtype, mode)
                ran[key] = _run(device, module_entries()[name], dtype, mode, inputs[key])
    tests: list[ModuleTest] = []
    internal: dict[str, None] = {}
    for (name, dtype, mode), outcome in ran.items():
        raised = {
            number: _raises(module_entries()[name], inputs[name, dtype, mode][number], dtype, mode)
            for number in outcome.raised
        }
        tests += _tests(
            marks, name, dtype, mode, outcome, [outcome.raised[number] for number, on_cpu in raised.items() if on_cpu]
        )
        for number, on_cpu in raised.items():
            if not on_cpu:
                internal[f"{name} with {dtype} on torch {table.release}: {outcome.raised[number]}"] = None
    return ModuleAudit(table.release, tuple(tests), tuple(sorted(marks.idle())), tuple(internal))


@dataclass(frozen=True, slots=True)
class _Ran:
    """What one module did on the device with every input."""

    calls: tuple[Seen, ...]
    raised: Mapping[int, str]  # number of an input → the error
    compared: bool  # the test compares the result with that of a reference function


def _modes(entry: Any) -> tuple[Mode, ...]:
    return ("train", "eval") if entry.train_and_eval_differ else ("train",)


def _tests(
    marks: ModuleMarks, name: str, dtype: str, mode: Mode, ran: _Ran, raised: Sequence[str]
) -> Iterator[ModuleTest]:
    for gradient, test in ((False, FORWARD_TEST), (True, GRADIENT_TEST)):
        expected: Expected = marks.expected(name, test, dtype, mode)
        alone = dtype == COMPARED_IN and marks.expected(name, test, "float32", mode) == "pass"
        if expected == "fail" and alone and ran.compared and not gradient:
            expected = "numbers"
        seen = next((call for call in ran.calls if call.refuses and (gradient or call.phase == FORWARD)), None)
        outcome: tuple[Outcome, str] = ("raised", raised[0]) if raised else ("runs", "nothing refused")
        if seen is not None:
            outcome = "refused", f"{seen.operator} {seen.verdict}: {seen.reason}"
        yield ModuleTest(name, dtype, mode, gradient, expected, *outcome)


def _run(device: AuditDevice, entry: Any, dtype: str, mode: Mode, inputs: Sequence[Any]) -> _Ran:
    raised = {}
    for number, given in enumerate(inputs):
        try:
            _step(entry, given, dtype, mode, device)
        except Exception as error:  # noqa: BLE001 - whether it is the device's fault is decided by the CPU
            raised[number] = message(error)
    return _Ran(device.short.take(), raised, any(given.reference_fn is not None for given in inputs))


def _raises(entry: Any, given: Any, dtype: str, mode: Mode) -> bool:
    """Whether the CPU raises as well."""
    try:
        _step(entry, given, dtype, mode, None)
    except Exception:  # noqa: BLE001 - as above
        return True
    return False


def _inputs(entry: Any, dtype: str, mode: Mode) -> list[Any]:
    with DrawnOnCpu():
        inputs = entry.module_inputs_func(
            entry, device=DEVICE, dtype=dtype_named(dtype), requires_grad=True, training=mode == "train"
        )
        given = [sample for sample in inputs if sample.forward_input is not None]
        return given[:: -(-len(given) // MOST_INPUTS)] if given else given


def _step(entry: Any, given: Any, dtype: str, mode: Mode, device: AuditDevice | None) -> None:
    """Forward and backward pass of a new module, on ``device`` or the CPU."""
    made, step = given.constructor_input, given.forward_input
    module = entry.module_cls(*made.args, **made.kwargs).to(dtype_named(dtype)).train(mode == "train")
    arguments = tree_map_only(torch.Tensor, copy_of, (step.args, step.kwargs))
    if device is None:
        _backward(module(*arguments[0], **arguments[1]))
        return
    module, (args, kwargs) = device.move(module), device.move(arguments)
    with device.recording(FORWARD):
        output = module(*args, **kwargs)
    with device.recording(BACKWARD):
        _backward(output)


def _backward(output: Any) -> None:
    for leaf in tree_leaves(output):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            leaf.backward(torch.ones_like(leaf), retain_graph=True)
