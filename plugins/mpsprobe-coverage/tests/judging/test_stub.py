"""Refusals for want of a stub's kernel."""

from __future__ import annotations

import pytest
import torch

from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging import stub
from mpsprobe_coverage.judging.chain import Chain
from mpsprobe_coverage.judging.judgement import Judgement
from mpsprobe_coverage.judging.stub import rules_of
from mpsprobe_coverage.kernels.kernel_facts import KernelFacts
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import torch_releases


def _put(release: str, elements: int) -> Judgement:
    """What becomes of ``put_`` into a tensor with so many elements."""
    with VirtualDevice(Chain(load_table(release), lists="none")) as device:
        target = device.move(torch.zeros(elements))
        index = device.move(torch.zeros(min(elements, 1), dtype=torch.int64))
        source = device.move(torch.ones(min(elements, 1)))
        with device.recording("forward"):
            target.put_(index, source)
        [record] = [record for record in device.recorder.calls() if record.operator == "aten::put_"]
        return record.judgement


def test_an_operator_without_the_kernel_of_its_stub_is_refused() -> None:
    judgement = _put("1.13.1", 3)
    assert (judgement.verdict, judgement.source) == ("unsupported", "stub")
    assert judgement.reason == "DispatchStub: missing kernel for mps (put_stub)"
    assert judgement.evidence == "nothing sets the MPS kernel of put_stub in torch 1.13.1"


def test_without_elements_it_is_not_asked() -> None:
    assert _put("1.13.1", 0).verdict == "native"


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
    monkeypatch.setattr(stub, "load_facts", facts.__getitem__)
    monkeypatch.setattr(stub, "facts_releases", lambda: tuple(sorted(facts, key=torch_releases().index)))
    for operator, since in (("aten::hypot", "2.11.0"), ("aten::no_such_operator", None)):
        judgement = stub.UnsetStub(("hypot_stub",), operator, "2.9.0")(
            Call(torch.ops.aten.hypot.default, (), {}, (), ())
        )
        assert judgement is not None
        assert judgement.accepted_since == since


def test_rules_are_about_every_dtype() -> None:
    [rule] = rules_of("aten::put_", load_table("1.13.1"))
    assert rule.dtypes is None
    assert rules_of("aten::put_", load_table("1.13.0")) == (rule,)


def test_torchvision_has_no_stubs() -> None:
    table = load_table("0.28.0", "torchvision")
    assert not any(rules_of(operator, table) for operator in table.operators)
