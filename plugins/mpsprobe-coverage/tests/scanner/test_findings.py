"""Call records become findings: one for each operator and verdict."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_coverage.device.attribution import NOWHERE, Origin
from mpsprobe_coverage.device.recorder import Recorder
from mpsprobe_coverage.device.tensor import intern_spec
from mpsprobe_coverage.kernels.store import load_table
from mpsprobe_coverage.scanner.advice import Situation, advise
from mpsprobe_coverage.scanner.findings import data_dependence, findings, not_judged, site, summarise

_FLOAT = intern_spec((2, 3), (3, 1), torch.float32)
_HALF = intern_spec((4,), (1,), torch.float16)
_SCALAR = intern_spec((), (), torch.int64)


def _recorder(*calls: tuple[str, str, str, Origin]) -> Recorder:
    recorder = Recorder()
    for operator, verdict, phase, origin in calls:
        recorder.phase = phase
        recorder.call(operator, verdict, None, origin, (_FLOAT, _SCALAR), (_HALF,))
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
    summary = summarise([worst, usual])
    assert summary.operators == 1 and summary.operators_by_verdict == {"unsupported": 1}
    assert summary.calls_by_verdict == {"native": 3, "unsupported": 1}


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
def test_nothing_is_lost(made: list[tuple[str, str, str, Origin]]) -> None:
    found = findings(_recorder(*made), load_table("2.13.0"))
    assert sum(one.calls for one in found) == len(made)
    assert {(one.operator, one.verdict) for one in found} == {(operator, verdict) for operator, verdict, *_ in made}
    for one in found:
        assert sum(one.phases.values()) == one.calls
        assert (one.advice is None) == (one.verdict == "native")
    summary = summarise(found)
    assert sum(summary.operators_by_verdict.values()) == summary.operators == len({operator for operator, *_ in made})


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
    ("verdict", "reason", "since", "said"),
    [
        ("fallback", "registered", "2.14.0", ["works, slowly", "2.0 kB", "2.14.0"]),
        ("missing", "no kernel", "2.9.0", ["2.9.0", "PYTORCH_ENABLE_MPS_FALLBACK=1", "2.0 kB"]),
        ("missing", "no kernel", None, ["No release up to 2.15.0", "PYTORCH_ENABLE_MPS_FALLBACK=1"]),
        ("unsupported", "a float64 tensor: MPS has no 64-bit floating point", None, ["float32", "model.py:3"]),
        ("unknown", "a library", None, ["Not covered"]),
    ],
)
def test_advice_says_what_to_do(verdict: str, reason: str, since: str | None, said: list[str]) -> None:
    advice = advise(Situation(verdict, reason, "2.6.0", since, "2.15.0", "model.py:3", 2000))
    assert advice is not None
    for words in said:
        assert words in advice
    assert "PYTORCH_ENABLE_MPS_FALLBACK" not in advice or verdict == "missing"


def test_what_is_native_needs_no_advice() -> None:
    assert advise(Situation("native", None, "2.6.0", "1.12.0", "2.15.0", None, 0)) is None
