"""Call records become findings: one for each operator and verdict, with examples, and the first tensor refused."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.assembling import summary_of
from mpsprobe.schemas import OperatorFinding, Verdict
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.calls.spec import interned
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, refused
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.recording.attribution import NOWHERE, Origin
from mpsprobe_coverage.recording.recorder import EXAMPLES_KEPT, Recorder
from mpsprobe_coverage.reporting.advice import advise
from mpsprobe_coverage.reporting.findings import (
    data_dependence,
    findings,
    first_refused_tensor,
    not_judged,
    site,
)

_FLOAT = interned((2, 3), (3, 1), torch.float32)
_HALF = interned((4,), (1,), torch.float16)
_SCALAR = interned((), (), torch.int64)


def _recorder(*calls: tuple[str, Verdict, str, Origin]) -> Recorder:
    recorder = Recorder()
    for operator, verdict, phase, origin in calls:
        recorder.phase = phase
        recorder.call(operator, Judgement(verdict), origin, (_FLOAT, _SCALAR), (_HALF,))
    return recorder


_A, _B = Origin("a", "model.py", 3), Origin("b", "model.py", 5)


def test_one_finding_for_each_operator_and_verdict() -> None:
    recorder = _recorder(
        ("aten::x", "native", "forward", _A),
        ("aten::x", "native", "forward", _B),
        ("aten::x", "native", "backward", _B),
        ("aten::x", "unsupported", "forward", _A),
    )
    worst, usual = findings(recorder, load_table("2.13.0"))
    assert (worst.verdict, worst.calls, usual.verdict, usual.calls) == ("unsupported", 1, "native", 3)
    assert usual.phases == {"forward": 2, "backward": 1}
    assert usual.modules == ["a", "b"] and usual.call_sites == ["model.py:5", "model.py:3"]
    assert usual.shapes == ["2x3, scalar"] and sorted(usual.dtypes) == ["float32", "int64"]
    assert (usual.input_bytes, usual.output_bytes) == (3 * (24 + 8), 3 * 8)
    summary = summary_of([worst, usual])
    assert summary.operators == 1 and summary.operators_by_verdict == {"unsupported": 1}
    assert summary.calls_by_verdict == {"native": 3, "unsupported": 1}


def test_calls_with_dtypes_that_nothing_shows_to_work_are_counted_apart() -> None:
    recorder = Recorder(phase="forward")
    registered = Judgement("native", None, "registration", "a kernel is registered under MPS")
    for spec in (_FLOAT, _FLOAT, interned((2,), (1,), torch.uint16)):
        recorder.call("aten::mul.Tensor", registered, _A, (spec,), (spec,))
    usual, untried = findings(recorder, load_table("2.13.0"))
    assert (usual.calls, usual.dtypes, usual.evidence) == (2, ["float32"], registered.evidence)
    assert (untried.calls, untried.dtypes, untried.evidence) == (1, ["uint16"], "registered only")
    assert summary_of([usual, untried]).calls_registered_only == 1


def test_calls_that_differ_in_their_judgement_alone_are_two_records_and_two_findings() -> None:
    with VirtualDevice(load_table("2.12.0")) as device:
        numbers, places = device.move(torch.ones(2, dtype=torch.int64)), device.move(torch.tensor([0, 1]))
        with device.recording("forward"):
            for way in ("sum", "amax", "sum"):
                numbers.scatter_reduce(0, places, numbers, way)
    added, largest = (record for record in device.recorder.calls() if record.operator == "aten::scatter_reduce.two")
    assert replace(added, judgement=largest.judgement, calls=1) == largest
    once, twice = (one for one in findings(device.recorder, device.table) if "scatter_reduce" in one.operator)
    assert (once.calls, once.verdict, once.source) == (1, "unsupported", "message")
    assert once.judges == ["dtype", "devices", "guard"] and "torch.int64" in (once.reason or "")
    assert (twice.calls, twice.verdict, twice.reason) == (2, "native", None)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["aten::a", "aten::b", "lib::c"]),
            st.sampled_from(["native", "missing", "fallback", "unsupported", "unknown"]),
            st.sampled_from(["forward", "backward", "optimizer"]),
            st.sampled_from([_A, _B, NOWHERE]),
        ),
        max_size=30,
    )
)
def test_nothing_is_lost(calls: list[tuple[str, Verdict, str, Origin]]) -> None:
    found = findings(_recorder(*calls), load_table("2.13.0"))
    assert sum(one.calls for one in found) == len(calls)
    assert {(one.operator, one.verdict) for one in found} == {(operator, verdict) for operator, verdict, *_ in calls}
    for one in found:
        assert sum(one.phases.values()) == one.calls
        assert (one.advice is None) == (one.verdict == "native")
    summary = summary_of(found)
    assert sum(summary.operators_by_verdict.values()) == summary.operators == len({operator for operator, *_ in calls})


def test_notes_are_gathered_by_text() -> None:
    recorder = Recorder(phase="forward")
    for origin in (_A, _A, _B):
        recorder.unjudged("lib::op", "no table", origin)
        recorder.assumed("aten::item", "False", origin)
    (unjudged,), (guess,) = not_judged(recorder), data_dependence(recorder)
    assert (unjudged.operator, unjudged.calls, unjudged.call_sites) == ("lib::op", 3, ["model.py:3", "model.py:5"])
    assert (guess.operator, guess.assumed, guess.calls) == ("aten::item", "False", 3)


def test_sites_are_paths_below_the_folder_of_the_import() -> None:
    assert site(torch.__file__, 7).endswith("torch/__init__.py:7")
    root = next(entry for entry in sys.path if entry and "site-packages" in entry)
    assert site(str(Path(root) / "transformers" / "model.py"), 1) == "transformers/model.py:1"
    assert site("elsewhere.py", 2) == "elsewhere.py:2"


@pytest.mark.parametrize(
    ("judgement", "said"),
    [
        (Judgement("fallback", accepted_since="2.14.0"), ["works, slowly", "2.0 kB", "2.14.0"]),
        (Judgement("missing", accepted_since="2.9.0"), ["2.9.0", "PYTORCH_ENABLE_MPS_FALLBACK=1", "2.0 kB"]),
        (Judgement("missing"), ["No release up to 2.15.0", "PYTORCH_ENABLE_MPS_FALLBACK=1"]),
        (refused("a float64 tensor", source="dtype", evidence="float64"), ["Use float32 at model.py:3"]),
        (refused("a complex128 tensor", source="dtype", evidence="complex128"), ["Use complex64"]),
        (refused("a view operator cannot fall back"), ["It raises whatever the environment says", "model.py:3"]),
        (refused("a dtype", accepted_since="2.9.0"), ["Accepted from torch 2.9.0 on"]),
        (refused("bfloat16", needs_macos="14.0"), ["macOS 14.0", "model.py:3"]),
        (
            refused("ends the process: it asserts"),
            ["It ends the process", "Change the call", "CPU by hand at model.py:3"],
        ),
        (refused("ends the process: it asserts", needs_macos="15.0"), ["It ends the process", "upgrade macOS"]),
        (Judgement("unknown"), ["Not covered", "a Mac"]),
    ],
)
def test_advice_says_what_to_do(judgement: Judgement, said: list[str]) -> None:
    advice = advise("aten::x", judgement, load_table("2.6.0"), " at model.py:3", 2000)
    assert advice is not None
    for words in said:
        assert words in advice
    assert "PYTORCH_ENABLE_MPS_FALLBACK" not in advice or judgement.verdict == "missing"


def _found(release: str, *sizes: int) -> dict[str, OperatorFinding]:
    table = load_table(release)
    with VirtualDevice(table) as device:
        device.recorder.phase = "forward"
        for size in sizes:
            square = torch.ones(size, size, device="mps")
            torch.linalg.qr(square.t(), mode="complete")
            torch.linalg.eigvals(square)
            torch.bincount(torch.ones(size, dtype=torch.int64, device="mps"), minlength=2)
            torch.cat([square, square.relu()], dim=1)
    return {one.operator: one for one in findings(device.recorder, table)}


def _made_again(example: str) -> Any:
    def tensor(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        return torch.empty_strided(shape, strides, dtype=dtype).zero_()

    return eval(example, {"torch": torch, "tensor": tensor, "device": "cpu"})


def test_each_distinct_call_that_is_not_native_is_kept_and_runs() -> None:
    by_name = _found("2.6.0", 3, 4, 3)
    refused = {name: one for name, one in by_name.items() if one.verdict != "native"}
    assert {"aten::linalg_qr.out", "aten::_linalg_eigvals"} <= refused.keys()
    first, second = refused["aten::linalg_qr.out"].examples
    assert first.startswith("torch.ops.aten.linalg_qr.out(tensor((3, 3), (1, 3), torch.float32), 'complete', Q=tensor(")
    assert "(4, 4)" in second
    for one in refused.values():
        for example in one.examples:
            _made_again(example)
    assert not any(one.examples for one in by_name.values() if one.verdict == "native")


def test_there_are_no_more_than_one_reads() -> None:
    assert len(_found("2.6.0", *range(1, 12))["aten::linalg_qr.out"].examples) == EXAMPLES_KEPT


class _Doubles(torch.nn.Module):
    def __init__(self, made: bool) -> None:
        super().__init__()
        self.made = made
        if not made:
            self.register_buffer("scale", torch.ones(3, dtype=torch.float64))

    def forward(self, tensor: Any) -> Any:
        doubled = tensor.double() if self.made else tensor * self.scale.float()
        return doubled + doubled


def _run(model: torch.nn.Module, *inputs: torch.Tensor) -> VirtualDevice:
    device = VirtualDevice(load_table("2.13.0"))
    with device:
        device.move(model)
        moved = device.move(inputs)
        with torch.no_grad(), device.recording("forward"):
            model(*moved)
    return device


def test_the_line_that_makes_the_first_wide_tensor_is_named() -> None:
    device = _run(torch.nn.Sequential(_Doubles(made=True)), torch.ones(3))
    first = first_refused_tensor(device.recorder)
    assert first is not None and (first.dtype, first.phase, first.module) == ("float64", "forward", "0")
    assert first.call_site is not None and "test_findings.py:" in first.call_site
    line = int(first.call_site.rsplit(":", 1)[1])
    assert line == _Doubles.forward.__code__.co_firstlineno + 1


def test_a_wide_buffer_or_input_is_refused_where_it_is_moved() -> None:
    device = _run(torch.nn.Sequential(_Doubles(made=False)), torch.ones(3))
    first = first_refused_tensor(device.recorder)
    assert first is not None and (first.phase, first.module, first.call_site) == ("move", "0", None)
    moved = [one for one in findings(device.recorder, load_table("2.13.0")) if "move" in one.phases]
    assert [(one.operator, one.verdict, one.source) for one in moved] == [("aten::copy_", "unsupported", "dtype")]
    device = _run(torch.nn.Identity(), torch.ones(3, dtype=torch.float64))
    first = first_refused_tensor(device.recorder)
    assert first is not None and (first.dtype, first.phase, first.module) == ("float64", "move", None)
    assert first_refused_tensor(_run(torch.nn.Linear(3, 3), torch.ones(3)).recorder) is None


def test_a_sparse_buffer_is_refused_where_it_is_moved() -> None:
    """As the alignment heads of openai-whisper are, also where nothing uses them; SparseMPS came with 2.1."""
    for release, verdict in (("2.0.1", "unsupported"), ("2.13.0", "")):
        model = torch.nn.Linear(3, 3)
        model.register_buffer("heads", torch.eye(3).to_sparse())
        device = VirtualDevice(load_table(release))
        with device:
            device.move(model)
        moved = [(record.phase, record.judgement.verdict) for record in device.recorder.calls()]
        assert moved == ([("move", verdict)] if verdict else []), release


@pytest.mark.filterwarnings("ignore:.*quantized tensor creation:UserWarning")
def test_quantized_tensors_are_refused_where_they_are_moved() -> None:
    """No release has a kernel under QuantizedMPS; what is done with such a tensor after that is only a consequence."""
    model = torch.nn.Linear(3, 3)
    model.register_buffer("weights", torch.quantize_per_tensor(torch.ones(3, 3), 0.1, 0, torch.qint8))
    device = _run(model, torch.ones(1, 3))
    first = first_refused_tensor(device.recorder)
    assert first is not None and (first.dtype, first.phase) == ("qint8", "move")
    reasons = {
        finding.reason for finding in findings(device.recorder, device.table) if finding.verdict == "unsupported"
    }
    assert reasons == {"a qint8 tensor: MPS has no quantized tensors"}
