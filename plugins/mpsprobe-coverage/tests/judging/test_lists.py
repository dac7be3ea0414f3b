"""Refusals that rest on the lists of PyTorch's tests: which lists speak, when they agree, what they overrule."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch

from mpsprobe.errors import TableError
from mpsprobe_coverage.calls.call import Call
from mpsprobe_coverage.device import VirtualDevice
from mpsprobe_coverage.judging import lists as judge
from mpsprobe_coverage.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.judging.lists import Learned, Lists, decode, lists_about, rules_of, uncontradicted
from mpsprobe_coverage.judging.signatures import dtypes_in
from mpsprobe_coverage.kernels.mps import load_table
from mpsprobe_coverage.kernels.releases import torch_releases
from mpsprobe_coverage.kernels.table import MPS

OPERATOR = "aten::relu"


def _list(*releases: str, blamed: tuple[str, ...] = (), accepted: tuple[str, ...] = ()) -> Learned:
    shown = {OPERATOR: dict.fromkeys(blamed, "nn.functional.relu")} if blamed else {}
    return Learned(releases, shown, {}, {OPERATOR: frozenset(accepted)} if accepted else {})


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> list[Learned]:
    """Lists that a test makes up."""
    made_up: list[Learned] = []
    monkeypatch.setattr(judge, "learned", lambda: tuple(made_up))
    monkeypatch.setattr(judge, "lists_about", lists_about.__wrapped__)
    return made_up


@pytest.fixture
def lists_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No other judge knows anything of kernels."""
    monkeypatch.setattr("mpsprobe_coverage.judging.chain._ABOUT_KERNELS", {MPS: ()})


def _refusal(release: str, lists: Lists, dtype: torch.dtype) -> Judgement | None:
    """What a call of ``OPERATOR`` meets."""
    table = load_table(release)
    with VirtualDevice(table) as device:
        tensor = device.move(torch.ones(2).to(dtype))
    spec = tensor.spec
    call = Call(torch.ops.aten.relu.default, (tensor,), {}, (spec,), (spec,))
    judgements = (rule(call) for rule in rules_of(OPERATOR, table, lists))
    return next((judgement for judgement in judgements if judgement is not None), None)


def test_the_own_list_speaks_for_a_release(known: list[Learned]) -> None:
    known += [_list("2.12.0", "2.12.1"), _list("2.13.0", blamed=("int8",)), _list("2.14.0", accepted=("int8",))]
    judgement = _refusal("2.13.0", "own", torch.int8)
    assert judgement is not None
    assert (judgement.verdict, judgement.source) == ("unsupported", "list")
    assert judgement.evidence == "list of 2.13.0: nn.functional.relu"
    assert judgement.accepted_since == "2.14.0"
    assert _refusal("2.13.0", "own", torch.int16) is None
    assert _refusal("2.13.0", "none", torch.int8) is None
    assert _refusal("2.13.0", "neighbours", torch.int8) is None  # its own list is no source here


def test_neighbours_have_to_agree(known: list[Learned]) -> None:
    known += [
        _list("2.12.0", "2.12.1", blamed=("int8", "int16", "bool")),
        _list("2.13.0", accepted=("int8", "int16", "bool")),
        _list("2.14.0", "2.14.1", blamed=("int8",), accepted=("int16",)),
        _list("2.15.0", blamed=("int16",)),
    ]
    both = _refusal("2.13.0", "neighbours", torch.int8)
    assert both is not None
    assert both.evidence == "lists of 2.12.1 and 2.14.0: nn.functional.relu"
    assert _refusal("2.13.0", "neighbours", torch.int16) is None  # they contradict each other
    alone = _refusal("2.13.0", "neighbours", torch.bool)
    assert alone is not None  # the other one says nothing
    assert alone.evidence == "list of 2.12.1: nn.functional.relu"


def test_patch_releases_with_one_list_are_no_neighbours(known: list[Learned]) -> None:
    known += [_list("2.13.0"), _list("2.14.0", "2.14.1", blamed=("int8",)), _list("2.15.0")]
    assert [voice.releases for voice in judge.lists_about("2.14.1", "neighbours")] == [("2.13.0",), ("2.15.0",)]
    assert _refusal("2.14.1", "neighbours", torch.int8) is None
    assert _refusal("2.14.0", "own", torch.int8) is not None


def test_a_release_without_a_list_hears_its_neighbours(known: list[Learned]) -> None:
    known += [_list("2.8.0", blamed=("int8",)), _list("2.9.0", "2.9.1"), _list("2.14.0", blamed=("int8",))]
    assert _refusal("2.7.1", "own", torch.int8) is not None
    assert _refusal("2.0.0", "own", torch.int8) is not None
    assert _refusal("2.10.0", "own", torch.int8) is not None
    assert _refusal("2.15.0", "own", torch.int8) is None  # it may have learned it since


@dataclass(frozen=True)
class _Always:
    dtypes: frozenset[torch.dtype] | None
    judge = "guard"

    def __call__(self, call: Call) -> Judgement | None:
        return refused("never")


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


def _put(release: str, accumulate: bool, dtype: torch.dtype = torch.int64) -> Judgement:
    """What ``index_put`` meets on the device of ``release``."""
    with VirtualDevice(load_table(release)) as device:
        target, values = device.move(torch.zeros(4, dtype=dtype)), device.move(torch.ones(2, dtype=dtype))
        places = device.move(torch.tensor([0, 1]))
        with device.recording("forward"):
            target.index_put_((places,), values, accumulate=accumulate)
        [record] = [record for record in device.recorder.calls() if record.operator == PUT]
    return record.judgement


@pytest.mark.usefixtures("lists_alone")
def test_a_flag_is_refused_by_itself(known: list[Learned]) -> None:
    known += [
        Learned(("2.12.0",), {PUT: {"int64 with accumulate": "index_put"}}, {}, {}),
        Learned(("2.13.0",), {PUT: {"int64": "index_put"}}, {}, {PUT: frozenset({"int64 with accumulate"})}),
    ]
    judgement = _put("2.12.0", accumulate=True)
    assert judgement.verdict == "unsupported"
    assert judgement.reason == "PyTorch expects it to fail for int64 with accumulate"
    assert judgement.accepted_since == "2.13.0"
    assert _put("2.12.0", accumulate=False).verdict == "native"  # no list has seen it: the mechanism decides
    assert _put("2.13.0", accumulate=False).verdict == "unsupported"
    assert _put("2.13.0", accumulate=True).verdict == "native"


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
    assert _put(release, accumulate=False, dtype=dtype).verdict == "native"
    judgement = _put(release, accumulate=True, dtype=dtype)
    assert judgement.verdict == "unsupported"
    assert judgement.source == "message"
    assert _put("2.9.0", accumulate=True, dtype=dtype).verdict == "native"


def test_the_way_of_reducing_counts() -> None:
    def reduced(release: str, way: str) -> set[str]:
        with VirtualDevice(load_table(release)) as device:
            numbers, places = device.move(torch.ones(2, dtype=torch.int64)), device.move(torch.tensor([0, 1]))
            with device.recording("forward"):
                numbers.scatter_reduce(0, places, numbers, way)
            calls = [call for call in device.recorder.calls() if call.operator == "aten::scatter_reduce.two"]
            return {call.judgement.verdict for call in calls}

    assert reduced("2.12.0", "sum") == {"native"}
    assert reduced("2.12.0", "amax") == {"unsupported"}
    assert reduced("2.13.0", "amax") == {"native"}
    assert reduced("2.13.0", "prod") == {"unsupported"}


def test_equal_rules_are_equal_in_every_release() -> None:
    """A run on one release speaks for another whose rules are the same."""
    older, newer = load_table("2.14.0"), load_table("2.14.1")
    rules = {operator: rules_of(operator, older) for operator in older.operators}
    assert rules == {operator: rules_of(operator, newer) for operator in newer.operators}
    assert {hash(rule) for about in rules.values() for rule in about}


@pytest.mark.usefixtures("lists_alone")
@pytest.mark.parametrize(
    ("dtype", "call", "sources"),
    [
        (torch.complex64, torch.linalg.cholesky_ex, ["list"]),
        (torch.float32, torch.linalg.cholesky_ex, []),
        (torch.complex64, torch.std, ["list"]),
        (torch.float32, torch.std, []),
    ],
)
def test_a_call_on_the_device_is_judged_by_them(
    dtype: torch.dtype, call: Callable[[torch.Tensor], object], sources: list[str]
) -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        tensor = device.move(torch.eye(2).to(dtype))
        with device.recording("forward"):
            call(tensor)
        judgements = [record.judgement for record in device.recorder.calls()]
    assert [judgement.source for judgement in judgements if judgement.verdict == "unsupported"] == sources


def test_what_the_shipped_file_says_fits_together() -> None:
    known = judge.learned()
    for one in known:
        assert one.refused or one.unclaimed
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
    assert all(lists_about(release, "own") for release in torch_releases())


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"lists": [{}]}', b'{"lists": [{"refused": {"": "aten::x"}}]}', b"\xff"]
)
def test_a_file_with_other_content_is_told(body: bytes) -> None:
    data = f"{judge.MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body
    with pytest.raises(TableError, match="is damaged"):
        decode(data)
    with pytest.raises(TableError, match="is damaged"):
        decode(data[:-1] + b"x")
