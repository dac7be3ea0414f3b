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
from mpsprobe_coverage.device.refusals.signatures import dtypes_in
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


PUT = "aten::_index_put_impl_"


def _put(release: str, accumulate: bool, lists: Lists = "own", dtype: torch.dtype = torch.int64) -> Refusal | str:
    """What ``index_put`` meets on the device of ``release``: a refusal or the verdict."""
    with VirtualDevice(load_table(release), lists=lists) as device:
        target, values = device.move(torch.zeros(4, dtype=dtype)), device.move(torch.ones(2, dtype=dtype))
        places = device.move(torch.tensor([0, 1]))
        with device.recording("forward"):
            target.index_put_((places,), values, accumulate=accumulate)
        [record] = [one for one in device.recorder.calls() if one.operator == PUT]
    return record.reason if isinstance(record.reason, Refusal) else record.verdict


def test_a_flag_is_refused_by_itself(known: list[Learned], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mpsprobe_coverage.device.refusals._MODULES", ())
    known += [
        Learned(("2.12.0",), {PUT: {"int64 with accumulate": "index_put"}}, {}, {}),
        Learned(("2.13.0",), {PUT: {"int64": "index_put"}}, {}, {PUT: frozenset({"int64 with accumulate"})}),
    ]
    refused = _put("2.12.0", accumulate=True)
    assert isinstance(refused, Refusal)
    assert str(refused) == "PyTorch expects it to fail for int64 with accumulate"
    assert refused.accepted_since == "2.13.0"
    assert _put("2.12.0", accumulate=False) == "native"  # no list has seen it: the mechanism decides
    assert isinstance(_put("2.13.0", accumulate=False), Refusal)
    assert _put("2.13.0", accumulate=True) == "native"


def test_what_is_taken_with_a_flag_contradicts_a_rule_about_dtypes(known: list[Learned]) -> None:
    known += [Learned(("2.13.0",), {}, {}, {OPERATOR: frozenset({"int8 with a_flag"})})]
    table = load_table("2.13.0")
    with VirtualDevice(table) as device:
        spec = device.move(torch.ones(2, dtype=torch.int8)).spec
    call = Call(torch.ops.aten.relu.default, (), {}, (spec,), (spec,))
    [kept] = uncontradicted(OPERATOR, (_Always(frozenset({torch.int8})),), table, "own")
    assert kept(call) is None


@pytest.mark.parametrize("dtype", [torch.int64, torch.int16, torch.uint8])
@pytest.mark.parametrize("release", ["2.6.0", "2.8.0"])
def test_whole_numbers_are_put_and_not_added_up(release: str, dtype: torch.dtype) -> None:
    """Macs with these releases write indices every day; what they have no kernel for is to add up at an index."""
    assert _put(release, accumulate=False, dtype=dtype) == "native"
    refused = _put(release, accumulate=True, dtype=dtype)
    assert isinstance(refused, Refusal)
    assert refused.source == ("list" if release == "2.8.0" else "message")
    assert _put("2.9.0", accumulate=True, dtype=dtype) == "native"


def test_the_way_of_reducing_counts() -> None:
    def reduced(release: str, way: str) -> set[str]:
        with VirtualDevice(load_table(release)) as device:
            numbers, places = device.move(torch.ones(2, dtype=torch.int64)), device.move(torch.tensor([0, 1]))
            with device.recording("forward"):
                numbers.scatter_reduce(0, places, numbers, way)
            return {one.verdict for one in device.recorder.calls() if one.operator == "aten::scatter_reduce.two"}

    assert reduced("2.12.0", "sum") == {"native"}
    assert reduced("2.12.0", "amax") == {"unsupported"}
    assert reduced("2.13.0", "amax") == {"native"}
    assert reduced("2.13.0", "prod") == {"unsupported"}


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


def test_what_the_shipped_file_says_fits_together() -> None:
    known = listed.learned()
    for one in known:
        assert one.refused
        assert sum(map(len, one.accepted.values())) > 1000
        for operator, taken in one.accepted.items():
            assert taken.isdisjoint(one.blamed(operator))
        tensors = {
            name
            for part in (one.refused, one.unclaimed)
            for them in part.values()
            for s in them
            for name in dtypes_in(s)
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
