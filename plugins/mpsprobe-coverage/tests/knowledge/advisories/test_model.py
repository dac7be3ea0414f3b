"""Which versions and which calls an advisory concerns, and which data files are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mpsprobe.errors import MpsprobeError
from mpsprobe_coverage.devices.virtual.tensor import spec_of
from mpsprobe_coverage.knowledge.advisories import conditions, model
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import advisories_for, all_advisories, named, parse
from mpsprobe_coverage.knowledge.calls.call import Call
from mpsprobe_coverage.knowledge.kernels import kernel_facts

ENTRY: dict[str, Any] = {
    "id": "an-example",
    "title": "An example",
    "operators": ["aten::mm"],
    "when": [["self[-1]", ">", 3]],
    "condition": "more than three",
    "symptom": "Wrong.",
    "workaround": "Do not.",
    "torch": {"since": "2.1.0", "fixed": "2.4.0"},
    "macos": {},
    "basis": "Read.",
    "sources": ["pytorch/pytorch#1"],
}


def _made(**changes: Any) -> Advisory:
    return Advisory.model_validate({**ENTRY, **changes})


@pytest.mark.parametrize(
    ("affected", "inside", "outside"),
    [
        ({"since": "2.1.0", "fixed": "2.4.0"}, ["2.1.0", "2.3.1"], ["2.0.1", "2.4.0", "2.10.0"]),
        ({"since": "2.1.0", "open": True}, ["2.1.0", "2.15.0"], ["2.0.1"]),
        ({"seen": ["2.3.1"], "fixed": "2.4.0"}, ["2.3.1"], ["2.3.0", "2.4.0"]),
        ({"seen": ["2.1.0", "2.3.1"]}, ["2.1.0", "2.2.0", "2.3.1"], ["2.0.1", "2.4.0"]),
        ({"since": "2.1.0", "seen": ["2.3.0"]}, ["2.1.0", "2.3.0"], ["2.0.0", "2.3.1"]),
        ({"every": True}, ["1.12.0", "2.15.0"], []),
    ],
)
def test_releases(
    affected: dict[str, Any], inside: list[str], outside: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_facts, "_code", dict)
    advisory = _made(torch=affected)
    assert all(advisory.affects(release) for release in inside)
    assert not any(advisory.affects(release) for release in outside)


CODE = {
    "2.0.0": {"aten::mm": "a"},
    "2.0.1": {"aten::mm": "b"},
    "2.1.0": {"aten::mm": "b", "aten::bmm": "d"},
    "2.1.1": {"aten::mm": "b", "aten::bmm": "d"},
    "2.2.0": {"aten::mm": "b", "aten::bmm": "e"},
    "2.2.1": {"aten::mm": "c", "aten::bmm": "e"},
    "2.2.2": {"aten::mm": "b", "aten::bmm": "e"},
    "2.3.0": {"aten::mm": "b", "aten::bmm": "e"},
}


@pytest.mark.parametrize(
    ("operators", "affected", "since", "until"),
    [
        (["aten::mm"], {"seen": ["2.1.0"]}, "2.0.1", "2.2.0"),
        (["aten::mm"], {"seen": ["2.1.0", "2.1.1"], "fixed": "2.2.1"}, "2.0.1", None),
        (["aten::mm"], {"since": "2.1.0", "seen": ["2.1.1"]}, None, "2.2.0"),
        (["aten::mm"], {"seen": ["2.2.0"], "open": True}, "2.0.1", None),
        (["aten::mm", "aten::bmm"], {"seen": ["2.1.1"]}, "2.0.1", None),  # one of them has no kernel in 2.0.1
        (["aten::bmm"], {"seen": ["2.2.0"], "open": True}, None, None),
        (["aten::bmm"], {"seen": ["2.1.1"]}, "2.1.0", None),
        (["aten::mm"], {"seen": ["2.2.1"]}, None, None),
        (["aten::relu"], {"seen": ["2.1.0"]}, None, None),  # its kernel is not known
        (["aten::mm"], {"seen": ["2.3.0"]}, "2.2.2", None),
        (["aten::mm"], {"since": "2.1.0", "fixed": "2.1.1"}, None, None),
        (["aten::mm"], {"seen": ["2.1.0"], "fixed": "2.1.1"}, None, None),  # the code does not show the mend
        (["aten::bmm"], {"seen": ["2.2.0"]}, None, None),  # nor here: the newest release has one
    ],
)
def test_releases_with_the_same_code(
    operators: list[str],
    affected: dict[str, Any],
    since: str | None,
    until: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_facts, "_code", lambda: CODE)
    monkeypatch.setattr(model, "torch_releases", lambda: (*CODE, "2.3.0"))
    advisory = _made(operators=operators, torch=affected)
    assert (advisory.torch.same_code_since, advisory.torch.same_code_until) == (since, until)
    named = [advisory.torch.since, since, *advisory.torch.seen, until]
    inside = [one for one in CODE if advisory.affects(one)]
    assert {one for one in named if one in CODE} <= {*inside}
    if since and until:
        assert inside == ["2.0.1", "2.1.0", "2.1.1", "2.2.0"]


def test_the_code_of_a_real_entry() -> None:
    """The graph of ``clamp`` is the same in 1.12.0 to 2.2.2, and in 2.3.0 it is another."""
    [advisory] = named(["clamp-nan"])
    assert advisory.torch.seen == ["2.1.2"]
    assert [one for one in ("1.12.0", "2.0.0", "2.2.2", "2.3.0", "2.15.0") if advisory.affects(one)] == [
        *("1.12.0", "2.0.0", "2.2.2")
    ]


@pytest.mark.parametrize(
    ("macos", "minimum", "asked", "concerned"),
    [
        ({}, "14.0", None, True),
        ({}, "14.0", "15.1", True),
        ({"fixed": "13.3"}, "12.3", None, True),
        ({"fixed": "13.3"}, "14.0", None, False),
        ({"fixed": "13.3"}, None, None, True),
        ({"fixed": "13.3"}, "12.3", "13.3", False),
        ({"fixed": "13.3"}, "12.3", "13.2.1", True),
        ({"since": "15.0", "open": True}, "12.3", "14.7", False),
        ({"since": "15.0", "open": True}, "12.3", "26", True),
        ({"seen": ["26.2"], "fixed": "26.3"}, "14.0", "26.1", False),
    ],
)
def test_systems(macos: dict[str, Any], minimum: str | None, asked: str | None, concerned: bool) -> None:
    assert _made(macos=macos).affects("2.2.0", minimum, asked) is concerned


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "No Slug"},
        {"operators": []},
        {"when": []},
        {"when": [["self[-1]", "near", 3]]},
        {"when": [["self.colour", "==", 3]]},
        {"when": [["self", "is", "crooked"]]},
        {"when": [["self.dtype", "==", "float16"]]},
        {"when": [["self.dtype", "in", "float16"]]},
        {"when": [["self[-1]", "<", "Not A Subject"]]},
        {"when": [["phase", "in", ["sideways"]]]},
        {"torch": {}},
        {"torch": {"since": "two"}},
        {"torch": {"since": "2.4.0", "fixed": "2.1.0"}},
        {"torch": {"since": "2.1.0", "fixed": "2.4.0", "open": True}},
        {"torch": {"every": True, "since": "2.1.0"}},
        {"sources": []},
        {"sources": ["somewhere"]},
        {"symptom": " "},
        {"title": "two\nlines"},
        {"surprise": 1},
    ],
)
def test_what_is_no_advisory_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        _made(**changes)


@given(st.text(max_size=200))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text, "any.toml")
    except MpsprobeError as error:
        assert str(error).startswith("any.toml")


def test_damaged_files_are_named() -> None:
    for text in ("", "advisory = 3", "[[advisory]]\nid = 3", "][", "advisory = [3]"):
        with pytest.raises(MpsprobeError, match=r"^damaged\.toml"):
            parse(text, "damaged.toml")


def test_a_release_gets_its_own_and_each_is_named_once() -> None:
    assert [one.id for one in named(["cumsum-bool", "cumsum-bool"])] == ["cumsum-bool"]
    found = {one.id for one in advisories_for("2.13.0", "14.0")}
    assert "conv-strided-weight" in found and "attention-causal-half" not in found
    assert found < {one.id for one in all_advisories()}


@pytest.mark.parametrize(
    ("chips", "inside", "outside", "where"),
    [
        (["m1", "m2"], ["m1-ultra", "M2 Pro 16GB"], ["m3", "m5-max"], "M1 and M2 only"),
        (["m1-max"], ["m1-max-64gb"], ["m1", "m1-ultra"], "Apple M1 Max only"),
        ([], ["m1", "m5-pro"], [], None),
    ],
)
def test_chips(chips: list[str], inside: list[str], outside: list[str], where: str | None) -> None:
    advisory = _made(chips=chips)
    assert advisory.where == where and advisory.affects("2.1.0")
    assert all(advisory.affects("2.1.0", chip=one) for one in inside)
    assert not any(advisory.affects("2.1.0", chip=one) for one in outside)
    with pytest.raises(ValidationError, match="no chip and no generation"):
        _made(chips=[*chips, "m17"])


def _call() -> Call:
    """``addmm`` of a 2x3 and an expanded 3x4 in float16, with a bias of four elements and alpha=2."""
    bias, left = torch.zeros(4, dtype=torch.float16), torch.zeros(2, 3, dtype=torch.float16)
    right = torch.zeros(1, 4, dtype=torch.float16).expand(3, 4)
    specs = tuple(map(spec_of, (bias, left, right)))
    out = spec_of(torch.zeros(2, 4, dtype=torch.float16))
    return Call(torch.ops.aten.addmm.default, (bias, left), {"mat2": right, "alpha": 2}, specs, (out,))


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        (["mat1[-1]", "==", 3], True),
        (["mat1[-1]", ">", 3], False),
        (["mat1[0]", "<", "mat2[1]"], True),
        (["mat1[5]", "==", 3], False),
        (["mat1[-1]", "divides", 9], True),
        (["mat1[-1]", "does not divide", 9], False),
        (["mat1[-1]", "does not divide", "output0[-1]"], True),
        (["mat1.elements", "is not a multiple of", 4], True),
        (["mat1.elements", "is not a multiple of", 3], False),
        (["mat1.elements", ">=", 6], True),
        (["mat1.rows", "==", 2], True),
        (["mat1.dims", "!=", 2], False),
        (["self.dtype", "in", ["float16", "bfloat16"]], True),
        (["self.dtype", "not in", ["float16"]], False),
        (["mat2", "is", "expanded"], True),
        (["mat1", "is not", "contiguous"], False),
        (["beta", "is", 1], True),
        (["alpha", "is", 1], False),
        (["alpha", ">", 1], True),
        (["beta", "is", True], False),
        (["self", "is", "given"], True),
        (["tensor2[-1]", "==", 4], True),
        (["tensor7[-1]", "==", 4], False),
        (["nothing", "is not", "given"], False),
        (["mat1[-3]", "==", 2], False),
        (["phase", "in", ["forward"]], True),
        (["phase", "in", ["backward"]], False),
    ],
)
def test_one_condition(condition: list[Any], holds: bool) -> None:
    assert conditions.matches(_made(when=[condition]), _call(), "forward") is holds


def test_all_of_when_and_one_of_the_alternatives() -> None:
    yes, no = ["mat1[-1]", "==", 3], ["mat1[-1]", "==", 4]
    assert conditions.matches(_made(when=[yes, yes]), _call(), "forward")
    assert not conditions.matches(_made(when=[yes, no]), _call(), "forward")
    assert conditions.matches(_made(when=[yes], when_any=[[no], [yes, yes]]), _call(), "forward")
    assert not conditions.matches(_made(when=[yes], when_any=[[no], [yes, no]]), _call(), "forward")


def test_entries_of_a_list() -> None:
    arguments = (torch.zeros(2, 4), torch.zeros(2, 3), torch.zeros(3, 4), [True, False, False])
    call = Call(torch.ops.aten.linear_backward.default, arguments, {}, (), ())
    masks = {"output_mask[0]": True, "output_mask[1]": False, "output_mask[-1]": False, "output_mask[7]": None}
    for entry, value in masks.items():
        for asked in (True, False):
            assert conditions.matches(_made(when=[[entry, "is", asked]]), call, "backward") is (asked is value), entry


@st.composite
def _viewed(draw: st.DrawFn) -> torch.Tensor:
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    made = torch.zeros(shape).permute(*draw(st.permutations(range(len(shape)))))
    if draw(st.booleans()):
        dim = draw(st.integers(0, len(shape) - 1))
        made = made.narrow(dim, 0, max(made.shape[dim] - 1, 1))
    if made.dim() in (4, 5) and draw(st.booleans()):
        last = torch.channels_last if made.dim() == 4 else torch.channels_last_3d
        made = made.contiguous(memory_format=last)
    return made


@given(_viewed())
def test_layouts_are_those_of_pytorch(tensor: torch.Tensor) -> None:
    spec = spec_of(tensor)
    assert conditions.is_contiguous(spec) == tensor.is_contiguous()
    reach = 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    filled = reach == tensor.numel()
    assert conditions.is_packed(spec) == (torch._debug_has_internal_overlap(tensor) == 0 and filled)
    assert not conditions.is_expanded(spec)
    if tensor.dim() in (4, 5):
        last = torch.channels_last if tensor.dim() == 4 else torch.channels_last_3d
        assert conditions.is_channels_last(spec) == tensor.is_contiguous(memory_format=last)


def test_a_slice_of_channels() -> None:
    image = torch.zeros(2, 4, 5, 6).contiguous(memory_format=torch.channels_last)
    others = (image, image.contiguous(), torch.zeros(2, 4, 5, 6)[:, :2], image[:, :, 1:], torch.zeros(4))
    found = [conditions.is_channels_last_slice(spec_of(one)) for one in (image[:, :2], image[:, 1:], *others)]
    assert found == [True, True, *[False] * len(others)]
