"""Refusals that rest on the lists of PyTorch's tests: which lists speak, when they agree, what they overrule."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from mpsprobe.errors import TableError
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.device.refusal import Refusal
from mpsprobe_coverage.device.refusals import Call, Rule, listed
from mpsprobe_coverage.device.refusals.listed import Learned, Lists, decode, encode, rules, speaking_for, uncontradicted
from mpsprobe_coverage.kernels.expectations import expectation_releases
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.store import load_table

OPERATOR = "aten::relu"


def _list(*releases: str, refused: tuple[str, ...] = (), accepted: tuple[str, ...] = ()) -> Learned:
    blamed = {OPERATOR: dict.fromkeys(refused, "nn.functional.relu")} if refused else {}
    return Learned(releases, blamed, {}, {OPERATOR: frozenset(accepted)} if accepted else {})


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[Learned]:
    """Lists that a test makes up."""
    made: list[Learned] = []
    monkeypatch.setattr(listed, "learned", lambda: tuple(made))
    speaking_for.cache_clear()
    monkeypatch.setattr(listed, "speaking_for", speaking_for.__wrapped__)
    return made


def _refusal(release: str, lists: Lists, dtype: torch.dtype) -> Refusal | None:
    """What a call of ``OPERATOR`` meets."""
    table = load_table(release)
    with VirtualDevice(table) as device:
        tensor = device.move(torch.ones(2).to(dtype))
    spec = tensor.spec
    call = Call(torch.ops.aten.relu.default, (tensor,), {}, (spec,), (spec,))
    for rule in rules(table, lists).get(OPERATOR, ()):
        found = rule(call)
        if found is not None:
            return found
    return None


def test_the_own_list_speaks_for_a_release(known: list[Learned]) -> None:
    known += [_list("2.12.0", "2.12.1"), _list("2.13.0", refused=("int8",)), _list("2.14.0", accepted=("int8",))]
    refused = _refusal("2.13.0", "own", torch.int8)
    assert refused is not None
    assert refused.source == "list"
    assert refused.evidence == "list of 2.13.0: nn.functional.relu"
    assert refused.accepted_since == "2.14.0"
    assert _refusal("2.13.0", "own", torch.int16) is None
    assert _refusal("2.13.0", "none", torch.int8) is None
    assert _refusal("2.13.0", "neighbours", torch.int8) is None  # its own list is no source here


def test_neighbours_have_to_agree(known: list[Learned]) -> None:
    known += [
        _list("2.12.0", "2.12.1", refused=("int8", "int16", "bool")),
        _list("2.13.0", accepted=("int8", "int16", "bool")),
        _list("2.14.0", "2.14.1", refused=("int8",), accepted=("int16",)),
        _list("2.15.0", refused=("int16",)),
    ]
    refused = _refusal("2.13.0", "neighbours", torch.int8)
    assert refused is not None
    assert refused.evidence == "lists of 2.12.1 and 2.14.0: nn.functional.relu"
    assert _refusal("2.13.0", "neighbours", torch.int16) is None  # they contradict each other
    alone = _refusal("2.13.0", "neighbours", torch.bool)
    assert alone is not None  # the other one says nothing
    assert alone.evidence == "list of 2.12.1: nn.functional.relu"


def test_patch_releases_with_one_list_are_no_neighbours(known: list[Learned]) -> None:
    known += [_list("2.13.0"), _list("2.14.0", "2.14.1", refused=("int8",)), _list("2.15.0")]
    assert [one.releases for one in listed.speaking_for("2.14.1", "neighbours")] == [("2.13.0",), ("2.15.0",)]
    assert _refusal("2.14.1", "neighbours", torch.int8) is None
    assert _refusal("2.14.0", "own", torch.int8) is not None


def test_a_release_without_a_list_hears_its_neighbours(known: list[Learned]) -> None:
    known += [_list("2.8.0", refused=("int8",)), _list("2.9.0", "2.9.1"), _list("2.14.0", refused=("int8",))]
    assert _refusal("2.7.1", "own", torch.int8) is not None
    assert _refusal("2.0.0", "own", torch.int8) is not None
    assert _refusal("2.10.0", "own", torch.int8) is not None
    assert _refusal("2.15.0", "own", torch.int8) is None  # it may have learned it since


@dataclass(frozen=True)
class _Always:
    dtypes: frozenset[torch.dtype] | None

    def __call__(self, call: Call) -> Refusal | None:
        return Refusal("never", source="message")


@dataclass(frozen=True)
class _WithShape(_Always):
    only_dtypes: bool = False


def test_a_rule_about_more_than_dtypes_is_not_contradicted(known: list[Learned]) -> None:
    known += [_list("2.13.0", accepted=("int8",))]
    kept: tuple[Rule, ...] = (_WithShape(frozenset({torch.int8})), _Always(frozenset({torch.int16})))
    assert uncontradicted(OPERATOR, kept, load_table("2.13.0"), "own") == kept  # the same rules, equal elsewhere too


@pytest.mark.parametrize(
    ("release", "accepted", "about", "refuses"),
    [
        ("2.13.0", (("int8",), ("int8",)), frozenset({torch.int8}), False),
        ("2.13.0", (("int8",), ()), frozenset({torch.int8}), True),  # one of them alone contradicts nothing
        ("2.13.0", (("int16",), ("int16",)), frozenset({torch.int8}), True),
        ("2.13.0", (("int8",), ("int8",)), None, True),  # a rule about sizes
        ("2.7.1", (("int8",), ("int8",)), frozenset({torch.int8}), True),  # later releases may have learned it
    ],
)
def test_what_all_lists_show_to_be_taken_is_not_refused(
    known: list[Learned], release: str, accepted: tuple[tuple[str, ...], ...], about: object, refuses: bool
) -> None:
    known += [_list("2.12.1", accepted=accepted[0]), _list("2.14.0", accepted=accepted[1])]
    table = load_table(release)
    with VirtualDevice(table) as device:
        spec = device.move(torch.ones(2, dtype=torch.int8)).spec
    call = Call(torch.ops.aten.relu.default, (), {}, (spec,), (spec,))
    kept = uncontradicted(OPERATOR, (_Always(about),), table, "neighbours")  # type: ignore[arg-type]
    assert [rule(call) is not None for rule in kept] == [refuses]
    assert [rule(call) is not None for rule in uncontradicted(OPERATOR, (_Always(about),), table, "none")] == [True]  # type: ignore[arg-type]


def test_equal_rules_are_equal_in_every_release() -> None:
    """A run on one release speaks for another whose rules are the same."""
    one, other = rules(load_table("2.14.0")), rules(load_table("2.14.1"))
    assert one == other
    assert one
    assert {hash(rule) for them in one.values() for rule in them}


@pytest.mark.parametrize(
    ("dtype", "call", "sources"),
    [
        (torch.complex64, lambda x: torch.renorm(x, 2, 0, 1.0), {"list"}),
        (torch.float32, lambda x: torch.renorm(x, 2, 0, 1.0), set()),
        (torch.complex64, torch.std, {"list"}),
        (torch.float32, torch.std, set()),
    ],
)
def test_a_call_on_the_device_is_judged_by_them(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, call: Callable[[torch.Tensor], object], sources: set[str]
) -> None:
    monkeypatch.setattr("mpsprobe_coverage.device.refusals._MODULES", ())
    with VirtualDevice(load_table("2.13.0")) as device:
        tensor = device.move(torch.eye(2).to(dtype))
        with device.recording("forward"):
            call(tensor)
        refused = [record.reason for record in device.recorder.calls() if record.verdict == "unsupported"]
    assert {reason.source for reason in refused if isinstance(reason, Refusal)} == sources
    assert len(refused) == len(sources)


def test_the_shipped_file_covers_every_release_with_expectations() -> None:
    known = listed.learned()
    assert [release for one in known for release in one.releases] == list(expectation_releases())
    for one in known:
        assert one.refused
        assert sum(map(len, one.accepted.values())) > 1000
        for operator, taken in one.accepted.items():
            assert taken.isdisjoint(one.blamed(operator))
        tensors = {
            name for part in (one.refused, one.unclaimed) for them in part.values() for s in them for name in _names(s)
        }
        assert all(isinstance(getattr(torch, name), torch.dtype) for name in tensors)
    assert all(speaking_for(release, "own") for release in torch_releases())


def test_the_file_comes_back_and_says_what_changed() -> None:
    known = (_list("2.12.0", refused=("int8",), accepted=("bool", "int16")), _list("2.13.0", accepted=("bool",)))
    data = encode(known, {"torch": "2.13.0"})
    assert decode(data) == known
    assert encode(known, {"torch": "2.13.0"}) == data
    again = encode((known[0], known[0]), {})
    assert b'"refused": {},\n   "unclaimed": {},\n   "accepted": {}' in again


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"lists": [{}]}', b'{"lists": [{"refused": {"": "aten::x"}}]}', b"\xff"]
)
def test_a_file_with_other_content_is_told(body: bytes) -> None:
    data = f"{listed.MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body
    with pytest.raises(TableError, match="is damaged"):
        decode(data)
    with pytest.raises(TableError, match="is damaged"):
        decode(data[:-1] + b"x")


def _names(one: str) -> list[str]:
    return one.replace(">", " ").split()
