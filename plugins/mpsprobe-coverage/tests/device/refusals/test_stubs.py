"""Refusals for want of a stub's kernel."""

from __future__ import annotations

import pytest
import torch

from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals import stubs
from mpsprobe_coverage.device.refusals.stubs import rules
from mpsprobe_coverage.kernels.kernel_facts import KernelFacts
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.store import load_table


def _put(release: str, elements: int) -> tuple[str, object]:
    """Verdict and reason of ``put_`` into a tensor with so many elements."""
    with VirtualDevice(load_table(release), lists="none") as device:
        target = device.move(torch.zeros(elements))
        index = device.move(torch.zeros(min(elements, 1), dtype=torch.int64))
        source = device.move(torch.ones(min(elements, 1)))
        with device.recording("forward"):
            target.put_(index, source)
        [call] = [call for call in device.recorder.calls() if call.operator == "aten::put_"]
        return call.verdict, call.reason


def test_an_operator_without_the_kernel_of_its_stub_is_refused() -> None:
    verdict, reason = _put("1.13.1", 3)
    assert verdict == "unsupported"
    assert isinstance(reason, Refusal)
    assert str(reason) == "DispatchStub: missing kernel for mps (put_stub)"
    assert (reason.source, reason.evidence) == ("stub", "nothing sets the MPS kernel of put_stub in torch 1.13.1")


def test_without_elements_it_is_not_asked() -> None:
    assert _put("1.13.1", 0)[0] == "native"


def test_since_when_a_release_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """``hypot`` is registered from 2.9.0 on."""
    facts = {
        release: KernelFacts(release, "", {}, {"aten::hypot": frozenset({"stub:hypot_stub"})} if unset else {})
        for release, unset in (
            ("2.9.0", True),
            ("2.9.1", False),
            ("2.10.0", True),
            ("2.11.0", False),
            ("2.12.0", False),
        )
    }
    monkeypatch.setattr(stubs, "load_facts", facts.get)
    monkeypatch.setattr(stubs, "facts_releases", lambda: tuple(sorted(facts, key=torch_releases().index)))
    assert stubs._set_since("aten::hypot", "2.9.0") == "2.11.0"
    assert stubs._set_since("aten::no_such_operator", "2.9.0") is None


def test_rules_are_about_every_dtype() -> None:
    [rule] = rules(load_table("1.13.1"))["aten::put_"]
    assert rule.dtypes is None
    assert rules(load_table("1.13.0"))["aten::put_"] == (rule,)


def test_torchvision_has_no_stubs() -> None:
    assert rules(load_table("0.28.0", "torchvision")) == {}
