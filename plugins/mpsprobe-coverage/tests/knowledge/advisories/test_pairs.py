"""Each advisory matches a model that makes such a call, and nothing else; what its data must be, whatever it says."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from made_workloads import calling, scan
from packaging.version import Version
from pairs import Function, Pair

from mpsprobe.schemas import AdvisoryMatch, OperatorFinding
from mpsprobe_coverage.devices.virtual import VirtualDevice
from mpsprobe_coverage.knowledge.advisories.model import Advisory
from mpsprobe_coverage.knowledge.advisories.store import all_entries
from mpsprobe_coverage.knowledge.advisories.words import Condition, subject
from mpsprobe_coverage.knowledge.calls.keys import operator_name
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY, load_table
from mpsprobe_coverage.knowledge.kernels.names import resolve_operators
from mpsprobe_coverage.knowledge.kernels.releases import torch_releases
from mpsprobe_coverage.recording import recorder as watching
from mpsprobe_coverage.recording.recorder import Watching
from tests.thorough import all_but, first_of_each

FILES = sorted(path.stem for path in Path(__file__).parent.glob("pairs*.py"))
PAIRS: dict[str, Pair] = {name: pair for file in FILES for name, pair in import_module(file).PAIRS.items()}
ENTRIES = {one.id: one for one in all_entries()}
ADVISORIES = {name: one for name, one in ENTRIES.items() if one.effect == "numbers"}
REFUSALS = [name for name, one in ENTRIES.items() if one.effect != "numbers"]
OTHERS = all_but(first_of_each(lambda name: (PAIRS[name].phase, str(ADVISORIES[name].macos)), ADVISORIES), ADVISORIES)
"""By default one of each phase and each condition on macOS."""
OLDER = {
    "13.0": "12.6", "13.2": "13.1", "14.0": "13.6", "14.4": "14.3", "15.0": "14.7", "15.2": "15.1", "15.5": "15.4",
    "26.0": "15.6", "27.0": "26.6",
}  # fmt: skip
"""Version of macOS where something began → the one before it."""
CHIPS = ("m1", "m2-pro-16gb", "m3", "m4-max", "m5")


def _matches(function: Function, release: str, phase: str, **target: str | None) -> dict[str, AdvisoryMatch]:
    report = scan(calling(function), release, phase=phase, **{name: one for name, one in target.items() if one})
    assert report.failure is None, report.failure
    assert report.summary.advisories == sum(not one.undecided for one in report.advisories)
    return {one.id: one for one in report.advisories}


def _outside(advisory: Advisory) -> list[str]:
    """The last release before the range and the first after it."""
    known = list(torch_releases())
    inside = [known.index(one) for one in known if advisory.affects(one)]
    return [known[i] for i in (inside[0] - 1, inside[-1] + 1) if 0 <= i < len(known)]


def test_each_advisory_has_a_pair() -> None:
    assert set(PAIRS) == set(ENTRIES)
    assert len(PAIRS) == sum(len(import_module(file).PAIRS) for file in FILES)
    assert not [name for name, pair in PAIRS.items() if not ENTRIES[name].affects(pair.release)]


@pytest.mark.parametrize("name", ADVISORIES)
def test_a_model_that_makes_such_a_call(name: str) -> None:
    pair = PAIRS[name]
    match = _matches(pair.hit, pair.release, pair.phase, macos=pair.macos)[name]
    assert match.calls >= 1 and set(match.operators) <= set(ADVISORIES[name].operators)
    assert any("pairs" in site for site in match.call_sites)
    assert sum(match.phases.values()) == match.calls


@pytest.mark.parametrize("name", OTHERS)
def test_neither_another_model_nor_another_release_nor_another_macos(name: str) -> None:
    pair, macos = PAIRS[name], ADVISORIES[name].macos
    assert name not in _matches(pair.miss, pair.release, pair.phase, macos=pair.macos)
    targets = [{"release": release} for release in _outside(ADVISORIES[name])]
    if macos.fixed is not None:
        targets.append({"release": pair.release, "macos": macos.fixed})
    if macos.since is not None:
        targets.append({"release": pair.release, "macos": OLDER[macos.since]})
    for target in targets:
        report = scan(calling(pair.hit), phase=pair.phase, **target)  # older releases may fail in another way
        assert name not in {one.id for one in report.advisories}, target


def _refused(name: str, function: Function, release: str, macos: str | None = None) -> list[OperatorFinding]:
    """The findings that rest on the entry."""
    report = scan(calling(function), release, phase=PAIRS[name].phase, **({"macos": macos} if macos else {}))
    assert name not in {one.id for one in report.advisories}
    said = ENTRIES[name].message or ENTRIES[name].title
    return [one for one in report.operators if said in (one.reason or "")]


@pytest.mark.parametrize("name", all_but(first_of_each(lambda name: ENTRIES[name].effect, REFUSALS), REFUSALS))
def test_a_model_that_a_kernel_refuses_and_one_beside_it(name: str) -> None:
    pair, entry = PAIRS[name], ENTRIES[name]
    older = OLDER[entry.macos.fixed] if entry.macos.fixed else None  # is judged only where it is named
    found = _refused(name, pair.hit, pair.release, older)
    assert not older or not _refused(name, pair.hit, pair.release)
    assert found and {one.verdict for one in found} == {"unsupported"}
    assert {one.operator for one in found} <= set(entry.operators)
    assert all((one.reason or "").startswith("ends the process") is (entry.effect == "ends") for one in found)
    assert not _refused(name, pair.miss, pair.release)
    assert not any(_refused(name, pair.hit, release) for release in _outside(entry))


@pytest.mark.parametrize(
    "name", all_but("linear-half-m5".__eq__, [one for one, known in ADVISORIES.items() if known.chips])
)
def test_the_chip_that_is_asked_about(name: str) -> None:
    pair, chips = PAIRS[name], ADVISORIES[name].chips
    found = {chip: _matches(pair.hit, pair.release, pair.phase, chip=chip).get(name) for chip in CHIPS}
    assert {chip for chip, match in found.items() if match} == {chip for chip in CHIPS if chip[:2] in chips}
    matches = [match for match in found.values() if match]
    assert all(one.chips == list(chips) and one.hardware == ADVISORIES[name].where for one in matches)


def test_only_operators_that_an_advisory_of_the_release_names_are_watched() -> None:
    nothing: Any = None  # is asked: no call is made
    newer, older = (Watching(nothing, load_table(release)) for release in ("2.14.0", "2.2.0"))
    assert "adaptive-max-pool-uneven" in {one.id for one in older.of("aten::adaptive_max_pool2d")}
    assert "adaptive-max-pool-uneven" not in {one.id for one in newer.of("aten::adaptive_max_pool2d")}
    assert newer.of("aten::tanh") == ()


def test_equal_calls_are_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = watching.matches

    def counted(advisory: Any, *call: Any) -> Any:
        looked.append(advisory.id)
        return real(advisory, *call)

    monkeypatch.setattr(watching, "matches", counted)

    def run(x: torch.Tensor) -> Any:
        for _ in range(5):
            x = torch.nn.functional.softplus(x.t().contiguous().t())
        return x

    [match] = scan(calling(run), "2.13.0").advisories
    assert match.id == "softplus-strided" and match.calls == 5
    assert looked.count("softplus-strided") == 1


def test_what_raises_has_no_wrong_numbers() -> None:
    def doubles(x: torch.Tensor) -> Any:
        return torch.nn.functional.softplus(x.double().t())

    # PyTorch has no kernel of its own for attention before 2.5: it is made of other operators.
    for function, release in ((doubles, "2.13.0"), (PAIRS["attention-causal-half"].hit, "2.4.0")):
        assert scan(calling(function), release).advisories == []


def test_nothing_is_told_outside_a_phase() -> None:
    with VirtualDevice(load_table("2.13.0")) as device:
        made = torch.zeros(3, 4, device="mps").t()
        torch.nn.functional.softplus(made)
        assert list(device.recorder.advisories()) == []
        with device.recording("forward"):
            torch.nn.functional.softplus(made)
        [found] = device.recorder.advisories()
    facts = (found.advisory, found.operator, found.phase, found.calls)
    assert facts == ("softplus-strided", "aten::softplus", "forward", 1)


def test_what_is_not_established_of_a_refusal_is_not_claimed() -> None:
    report = scan(calling(PAIRS["batch-norm-volume-channels-last"].hit), "2.10.0")
    [refused] = [one for one in report.operators if one.verdict == "unsupported"]
    assert (refused.native_since, report.summary.native_since) == (None, None)
    assert str(refused.advice).endswith("Which release accepts it is not established.")


def test_what_an_old_macos_refuses_needs_a_newer_one() -> None:
    column = calling(PAIRS["gather-one-long-dimension"].hit)
    [condition] = scan(column, "2.4.1").macos_conditions
    assert (condition.macos, condition.operators) == ("15.2", ["aten::gather"])
    [refused] = [one for one in scan(column, "2.4.1", macos="14.0").operators if one.verdict == "unsupported"]
    assert refused.needs_macos == "15.2"


def _arguments(operator: str) -> set[str]:
    """The names of an operator's arguments in the installed torch."""
    namespace, name = operator.split("::")
    packet = getattr(getattr(torch.ops, namespace), name.split(".")[0])
    overloads = [getattr(packet, one) for one in packet.overloads()]
    [func] = [one for one in overloads if operator_name(one) == operator]
    return {argument.name for argument in func._schema.arguments}


def _names(condition: Condition) -> set[str]:
    text, relation, wanted = condition
    other = [wanted] if isinstance(wanted, str) and relation not in ("is", "is not") else []
    return {subject(one).name for one in (text, *other)}


def test_identifiers_are_unique_and_in_one_file_each() -> None:
    folder = files("mpsprobe_coverage.knowledge.advisories") / "data"
    text = "".join(entry.read_text(encoding="utf-8") for entry in folder.iterdir())
    found = re.findall(r'^id = "(.*)"$', text, flags=re.MULTILINE)
    assert sorted(found) == list(ENTRIES)
    assert len(found) == len(set(found)) >= 20


def test_operators_are_those_of_the_tables_and_native_where_they_are_wrong() -> None:
    for advisory in ENTRIES.values():
        names = [f"{name}.default" if name.count(".") == 0 else name for name in advisory.operators]
        assert resolve_operators(names, MPS_FAMILY.operators)
        assert resolve_operators(advisory.reached_from, MPS_FAMILY.operators) or not advisory.reached_from
        concerned = [one for one in torch_releases() if advisory.affects(one, load_table(one).macos_minimum)]
        for release in (advisory.torch.since or next(iter(advisory.torch.seen), concerned[-1]), concerned[-1]):
            verdicts = [load_table(release).verdict(name) for name in advisory.operators]
            assert {"native", "composite"} & {*verdicts}, (advisory.id, release)  # copy_ calls the kernel of _copy_from


def test_releases_that_are_named_exist_and_a_range_has_no_hole() -> None:
    for advisory in ENTRIES.values():
        affected = advisory.torch
        assert {one for one in (affected.since, *affected.seen, affected.fixed) if one} <= set(torch_releases())
        assert all(Version(one).major in (12, 13, 14, 15, 26, 27) for one in advisory.macos.seen)
        inside = [advisory.affects(release) for release in torch_releases()]
        assert sum(one != other for one, other in pairwise([False, *inside, False])) == 2, advisory.id
        assert all(map(advisory.affects, affected.seen)), advisory.id
        assert not affected.fixed or not advisory.affects(affected.fixed), advisory.id


def test_conditions_are_about_arguments_that_an_operator_has() -> None:
    free = {"phase", "caller", *(f"{kind}{number}" for kind in ("tensor", "output") for number in range(4))}
    for advisory in ENTRIES.values():
        arguments = set().union(*map(_arguments, advisory.operators))
        for condition in advisory.conditions:
            assert _names(condition) <= arguments | free, (advisory.id, condition)


def test_texts_are_short_sentences_and_each_names_a_thread_of_pytorch() -> None:
    for advisory in ENTRIES.values():
        assert not advisory.title.endswith(".") and len(advisory.title) <= 110, advisory.id
        assert not advisory.condition.endswith(".") and len(advisory.condition) <= 320, advisory.id
        for text in filter(None, (advisory.symptom, advisory.workaround, advisory.basis)):
            assert text.endswith(".") and text[0].isupper(), advisory.id
        assert any(re.fullmatch(r"pytorch/pytorch#\d+", source) for source in advisory.sources), advisory.id
        assert len(set(advisory.sources)) == len(advisory.sources), advisory.id
