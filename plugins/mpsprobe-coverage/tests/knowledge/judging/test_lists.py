"""The lists of PyTorch's tests: which of them speak, when they agree, what they overrule, and what they prove."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from judged_calls import judgements, places

from mpsprobe.assembling import REGISTERED_ONLY
from mpsprobe.errors import TableError
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.calls.spec import spec_of
from mpsprobe_coverage.knowledge.judging import lists as judge
from mpsprobe_coverage.knowledge.judging.judgement import Judgement, Rule, refused
from mpsprobe_coverage.knowledge.judging.lists import Learned, Lists, decode, lists_about, rules_of, uncontradicted
from mpsprobe_coverage.knowledge.judging.proof import with_proof
from mpsprobe_coverage.knowledge.judging.signatures import dtypes_in, flags_of, signature, without_flags
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases
from mpsprobe_coverage.knowledge.kernels.table import MPS

aten = torch.ops.aten
OPERATOR, PUT = "aten::relu", "aten::_index_put_impl_"
INT8 = frozenset({torch.int8})


def _list(releases: str, blamed: str = "", accepted: str = "") -> Learned:
    shown = {OPERATOR: dict.fromkeys(blamed.split(), "nn.functional.relu")} if blamed else {}
    return Learned(tuple(releases.split()), shown, {}, {OPERATOR: frozenset(accepted.split())} if accepted else {})


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
    monkeypatch.setattr("mpsprobe_coverage.knowledge.judging.chain._ABOUT_KERNELS", {MPS: ()})


def _call(dtype: torch.dtype) -> Call:
    tensor = torch.ones(2).to(dtype)
    return Call(aten.relu.default, (tensor,), {}, (spec_of(tensor),), (spec_of(tensor),))


def _refusal(release: str, lists: Lists, dtype: str) -> Judgement | None:
    """What a call of ``OPERATOR`` meets."""
    call = _call(getattr(torch, dtype))
    found = (rule(call) for rule in rules_of(OPERATOR, load_table(release), lists))
    return next((judgement for judgement in found if judgement is not None), None)


OWN = [_list("2.12.0 2.12.1"), _list("2.13.0", "int8"), _list("2.14.0", "", "int8")]
NEIGHBOURS = [
    _list("2.12.0 2.12.1", "int8 int16 bool"),
    _list("2.13.0", "", "int8 int16 bool"),
    _list("2.14.0 2.14.1", "int8", "int16"),
    _list("2.15.0", "int16"),
]
PATCHES = [_list("2.13.0"), _list("2.14.0 2.14.1", "int8"), _list("2.15.0")]
GAPS = [_list("2.8.0", "int8"), _list("2.9.0 2.9.1"), _list("2.14.0", "int8")]


@pytest.mark.parametrize(
    ("voices", "release", "lists", "dtype", "evidence"),
    [
        (OWN, "2.13.0", "own", "int8", "list of 2.13.0"),
        (OWN, "2.13.0", "own", "int16", None),
        (OWN, "2.13.0", "none", "int8", None),
        (OWN, "2.13.0", "neighbours", "int8", None),  # its own list is no source here
        (NEIGHBOURS, "2.13.0", "neighbours", "int8", "lists of 2.12.1 and 2.14.0"),
        (NEIGHBOURS, "2.13.0", "neighbours", "int16", None),  # they contradict each other
        (NEIGHBOURS, "2.13.0", "neighbours", "bool", "list of 2.12.1"),  # the other one says nothing
        (PATCHES, "2.14.1", "neighbours", "int8", None),  # one list of two releases is no neighbour
        (PATCHES, "2.14.0", "own", "int8", "list of 2.14.0"),
        (GAPS, "2.7.1", "own", "int8", "list of 2.8.0"),  # a release without a list hears its neighbours
        (GAPS, "2.0.0", "own", "int8", "list of 2.8.0"),
        (GAPS, "2.10.0", "own", "int8", "list of 2.14.0"),
        (GAPS, "2.15.0", "own", "int8", None),  # it may have learned it since
    ],
)
def test_which_lists_speak(
    known: list[Learned], voices: list[Learned], release: str, lists: Lists, dtype: str, evidence: str | None
) -> None:
    known += voices
    judgement = _refusal(release, lists, dtype)
    assert (judgement and judgement.evidence) == (evidence and f"{evidence}: nn.functional.relu")
    assert judgement is None or (judgement.verdict, judgement.source) == ("unsupported", "list")


def test_since_when_it_is_taken_and_who_the_neighbours_are(known: list[Learned]) -> None:
    known += OWN
    judgement = _refusal("2.13.0", "own", "int8")
    assert judgement is not None and judgement.accepted_since == "2.14.0"
    known[:] = PATCHES
    assert [voice.releases for voice in judge.lists_about("2.14.1", "neighbours")] == [("2.13.0",), ("2.15.0",)]


def _always(dtypes: frozenset[torch.dtype] | None, only_dtypes: bool = True) -> Rule:
    return Rule("guard", _refuse, dtypes=dtypes, only_dtypes=only_dtypes)


def _refuse(_: Call) -> Judgement:
    return refused("always")


def test_a_rule_about_more_than_dtypes_is_not_contradicted(known: list[Learned]) -> None:
    known += [_list("2.13.0", "", "int8")]
    kept: tuple[Rule, ...] = (_always(INT8, False), _always(frozenset({torch.int16})))
    assert uncontradicted(OPERATOR, kept, load_table("2.13.0"), "own") == kept  # the same rules, equal elsewhere too


@pytest.mark.parametrize(
    ("release", "older", "newer", "about", "refuses"),
    [
        ("2.13.0", "int8", "int8", INT8, False),
        ("2.13.0", "int8", "", INT8, True),  # one of them alone contradicts nothing
        ("2.13.0", "int16", "int16", INT8, True),
        ("2.13.0", "int8", "int8", None, True),  # a rule about sizes
        ("2.7.1", "int8", "int8", INT8, True),  # later releases may have learned it
    ],
)
def test_what_all_lists_show_to_be_taken_is_not_refused(
    known: list[Learned], release: str, older: str, newer: str, about: Any, refuses: bool
) -> None:
    known += [_list("2.12.1", "", older), _list("2.14.0", "", newer)]
    for lists, expected in (("neighbours", refuses), ("none", True)):
        kept = uncontradicted(OPERATOR, (_always(about),), load_table(release), lists)
        assert [rule(_call(torch.int8)) is not None for rule in kept] == [expected]


def test_what_is_taken_with_a_flag_contradicts_a_rule_about_dtypes(known: list[Learned]) -> None:
    known += [Learned(("2.13.0",), {}, {}, {OPERATOR: frozenset({"int8 with a_flag"})})]
    [kept] = uncontradicted(OPERATOR, (_always(INT8),), load_table("2.13.0"), "own")
    assert kept(_call(torch.int8)) is None


def _put(release: str, accumulate: bool) -> Judgement:
    """What ``index_put`` of whole numbers meets on the device of ``release``."""

    def put() -> Any:
        return places(4).index_put_((places(2),), places(2), accumulate=accumulate)

    [judgement] = judgements(release, put, PUT.removeprefix("aten::"))
    return judgement


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


def test_the_way_of_reducing_counts() -> None:
    def reduce(way: str) -> Any:
        return places(2).scatter_reduce(0, places(2), places(2), way)

    ways = [("2.12.0", "sum"), ("2.12.0", "amax"), ("2.13.0", "amax"), ("2.13.0", "prod")]
    made = [judgements(release, partial(reduce, way), "scatter_reduce") for release, way in ways]
    assert [one.verdict for [one] in made] == ["native", "unsupported", "native", "unsupported"]


def test_equal_rules_are_equal_in_every_release() -> None:
    """A run on one release speaks for another whose rules are the same."""
    older, newer = load_table("2.14.0"), load_table("2.14.1")
    rules = {operator: rules_of(operator, older) for operator in older.operators}
    assert rules == {operator: rules_of(operator, newer) for operator in newer.operators}
    assert {hash(rule) for about in rules.values() for rule in about}


@pytest.mark.usefixtures("lists_alone")
@pytest.mark.parametrize("call", [torch.linalg.cholesky_ex, torch.std])
def test_a_call_on_the_device_is_judged_by_them(call: Callable[[torch.Tensor], object]) -> None:
    for dtype, sources in ((torch.complex64, ["list"]), (torch.float32, [])):
        found = judgements("2.13.0", lambda dtype=dtype: call(torch.eye(2).to(dtype).to("mps")))
        assert [judgement.source for judgement in found if judgement.verdict == "unsupported"] == sources


def test_what_the_shipped_file_says_fits_together() -> None:
    for one in judge.learned():
        assert one.refused or one.unclaimed
        assert sum(map(len, one.accepted.values())) > 1000
        assert all(taken.isdisjoint(one.blamed(operator)) for operator, taken in one.accepted.items())
        blamed = [found for part in (one.refused, one.unclaimed) for them in part.values() for found in them]
        assert all(isinstance(getattr(torch, name), torch.dtype) for found in blamed for name in dtypes_in(found))
    assert all(lists_about(release, "own") for release in torch_releases())


@pytest.mark.parametrize(
    "body", [b"", b"{}", b'{"lists": [{}]}', b'{"lists": [{"refused": {"": "aten::x"}}]}', b"\xff"]
)
def test_a_file_with_other_content_is_told(body: bytes) -> None:
    data = f"{judge.MAGIC} {hashlib.sha256(body).hexdigest()}\n".encode() + body
    for damaged in (data, data[:-1] + b"x"):
        with pytest.raises(TableError, match="is damaged"):
            decode(damaged)


REGISTERED = Judgement("native", None, "registration", "a kernel is registered under MPS", "1.12.0")
BY_BRANCH = REGISTERED._replace(source="branch")


@pytest.mark.parametrize(
    ("operator", "dtypes", "release", "proven"),
    [
        ("add.Tensor", "float32", "2.13.0", True),
        ("add_.Tensor", "float32", "2.13.0", True),  # no entry calls it; it is the kernel of add
        ("linear_backward", "float32", "2.13.0", True),  # from the tests of gradients
        ("__ilshift__.Tensor", "int32", "2.13.0", True),  # no entry calls it; the Metal kernels are there
        # Other tests than those of the lists.
        ("_scaled_dot_product_attention_math_for_mps", "bfloat16", "2.13.0", True),
        ("view", "uint16", "2.13.0", True),  # computes nothing
        ("empty.memory_format", "uint16", "2.13.0", True),
        ("linear_backward", "bfloat16", "2.13.0", False),  # PyTorch tests gradients of float32 and float16
        ("sort.stable", "uint16 int64", "2.13.0", False),
        ("an_operator_of_that_release", "float32", "2.13.0", False),
        # A release without a list asks its neighbour.
        ("add.Tensor", "float32", "2.1.0", True),
        ("sort.stable", "uint16 int64", "2.1.0", False),
        # A cast is proven by its two dtypes.
        ("copy_", "float32 float16", "2.13.0", True),
        ("copy_", "float32 uint16", "2.13.0", False),
    ],
)
def test_what_nothing_but_the_registration_shows(operator: str, dtypes: str, release: str, proven: bool) -> None:
    by = BY_BRANCH if operator == "copy_" else REGISTERED
    tensors = frozenset(getattr(torch, name) for name in dtypes.split())
    judgement = with_proof(f"aten::{operator}", by, tensors, load_table(release))
    assert judgement.evidence == (REGISTERED.evidence if proven else REGISTERED_ONLY)
    assert with_proof(f"aten::{operator}", refused("why"), tensors, load_table(release)) == refused("why")


TENSOR = torch.ones(2)
AMAX = (TENSOR, 0, TENSOR, TENSOR, "amax")


@pytest.mark.parametrize(
    ("func", "args", "kwargs", "flags"),
    [
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR), {}, ()),
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR, False, False), {}, ()),
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR, True), {}, ("accumulate",)),
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR), {"accumulate": True}, ("accumulate",)),
        (aten._index_put_impl_.default, (TENSOR, [TENSOR], TENSOR, True, True), {}, ("accumulate", "unsafe")),
        (aten.topk.default, (TENSOR, 1), {}, ()),
        (aten.topk.default, (TENSOR, 1, 0, False), {"sorted": False}, ("largest=False", "sorted=False")),
        (aten.sort.stable, (TENSOR,), {"stable": None}, ()),  # no default: nothing and False are the same
        (aten.sort.stable, (TENSOR,), {"stable": False}, ()),
        (aten.sort.stable, (TENSOR,), {"stable": True, "descending": True}, ("stable", "descending")),
        (aten.gelu.default, (TENSOR,), {"approximate": "none"}, ()),
        (aten.gelu.default, (TENSOR,), {"approximate": "tanh"}, ("approximate=tanh",)),
        (aten.gelu.default, (TENSOR,), {"approximate": None}, ("approximate=None",)),
        (aten.div.Tensor_mode, (TENSOR, TENSOR), {"rounding_mode": None}, ()),
        (aten.div.Tensor_mode, (TENSOR, TENSOR), {"rounding_mode": "floor"}, ("rounding_mode=floor",)),
        (aten.scatter_reduce.two, (*AMAX, False), {}, ("reduce=amax", "include_self=False")),
        (aten.std.correction, (TENSOR, [0]), {"correction": 2}, ()),  # numbers are in no signature
        (aten.abs.default, (TENSOR,), {}, ()),
        (aten.einsum.default, ("a,b->ab|@ ", [TENSOR, TENSOR]), {}, ("equation=a%2Cb-%3Eab%7C%40%20",)),
    ],
)
def test_flags_are_what_differs_from_the_default(func: Any, args: Any, kwargs: Any, flags: tuple[str, ...]) -> None:
    assert flags_of(func, args, kwargs) == flags


@pytest.mark.parametrize(
    ("inputs", "outputs", "flags", "made"),
    [
        (("int64", "int64"), ("int64",), (), "int64"),
        (("int64",), ("float32",), (), "int64>float32"),
        ((), ("float32",), (), ">float32"),
        (("float32", "int64"), ("float32", "bool"), ("a", "b=c"), "float32 int64>bool with a, b=c"),
    ],
)
def test_a_signature_can_be_taken_apart(inputs: Any, outputs: Any, flags: Any, made: str) -> None:
    found = signature(inputs, outputs, flags)
    assert found == made
    assert without_flags(found) == signature(inputs, outputs)
    assert dtypes_in(found) == list(dict.fromkeys((*inputs, *outputs)))
