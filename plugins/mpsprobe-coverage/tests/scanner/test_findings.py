"""Call records become findings: one for each operator and verdict."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.assembling import summary_of
from mpsprobe.schemas import Verdict
from mpsprobe_coverage.calls.spec import interned
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.attribution import NOWHERE, Origin
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.judging.judgement import Judgement, refused
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.scanner.advice import advise
from mpsprobe_coverage.scanner.findings import data_dependence, findings, not_judged, site

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
    assert (once.calls, once.verdict, once.source, once.judges) == (
        1,
        "unsupported",
        "message",
        ["dtype", "devices", "guard"],
    )
    assert "torch.int64" in (once.reason or "")
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
    advice = advise("aten::x", judgement, load_table("2.6.0"), "model.py:3", 2000)
    assert advice is not None
    for words in said:
        assert words in advice
    assert "PYTORCH_ENABLE_MPS_FALLBACK" not in advice or judgement.verdict == "missing"


def test_what_is_native_needs_no_advice() -> None:
    assert advise("aten::x", Judgement("native", accepted_since="1.12.0"), load_table("2.6.0"), None, 0) is None
