"""Strings on one line, amounts, folded names, links and the ranges of advisories, in words."""

from __future__ import annotations

import itertools
import re

from example_reports import on_any_text, texts
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.schemas import AffectedRange, AffectedSystems, Environment
from mpsprobe_exporters.advisories import releases, systems
from mpsprobe_exporters.module_names import ROOT, fold_names
from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, shortened
from mpsprobe_exporters.sources import lines, reference
from mpsprobe_exporters.units import amount, byte_size, duration, number, percent, plain, quantity, ratio, reading


@given(texts, st.integers(min_value=5, max_value=400))
def test_one_line_is_printable_and_short(text: str, longest: int) -> None:
    line = one_line(text, longest)
    assert line.isprintable() and len(line) <= longest
    assert one_line(line, longest) == line


def test_one_line_keeps_both_ends_and_the_file_of_a_call_site() -> None:
    assert one_line("a" * 50 + "b" * 50, 12) == "aaaaaaaa…bbb"
    assert one_line("tab\tnew\r\nline\u2028end ") == "tab new line end"
    assert one_line("\x1b[31m\u202e") == "\N{REPLACEMENT CHARACTER}[31m\N{REPLACEMENT CHARACTER}"
    shown = {
        "/usr/lib/transformers/modeling_bert.py:164": "modeling_bert.py:164",
        "C:\\code\\model.py:3": "model.py:3",
        "model.py:3": "model.py:3",
        "../../etc/": "../../etc/",
    }
    assert {site: call_site(site) for site in shown} == shown
    said = [plural(1, "call"), plural(2000, "call"), plural(2, "pass", "passes")]
    assert said == ["1 call", "2,000 calls", "2 passes"]
    assert [listed(list(letters)) for letters in ("", "a", "ab", "abc")] == ["", "a", "a and b", "a, b and c"]
    assert shortened(["a", "b", "c"], 3) == ["a", "b", "c"]
    assert shortened(["a", "b", "c", "d"], 2) == ["a", "b", "and 2 more"]


def test_sizes_and_counts() -> None:
    said = {
        0: ("0 B", "0"),
        999: ("999 B", "999"),
        1000: ("1.0 kB", "1.0 k"),
        999_949: ("999.9 kB", "999.9 k"),
        999_950: ("1.0 MB", "1.0 M"),
        70_553_706_496: ("70.6 GB", "70.6 B"),
        10**12: ("1.0 TB", "1.0 T"),
        10**400: ("1,000.0 PB", "1,000,000.0 T"),
    }
    assert {count: (byte_size(count), quantity(count)) for count in said} == said


def test_durations_have_three_digits() -> None:
    said = {0: "0 ns", 0.25: "0.25 ns", 812: "812 ns", 9_994: "9.99 µs", 9_996: "10.0 µs", 99_960: "100 µs"}
    said |= {999_600: "1.00 ms", -35_200_000: "-35.2 ms", 1e300: "1,000,000,000 s"}
    assert {spent: duration(spent) for spent in said} == said


def test_bare_numbers() -> None:
    assert [amount(one) for one in (7.0, 9.996, 74.24, 7421.3)] == ["7.00", "10.0", "74.2", "7,421"]
    assert [plain(one) for one in (12.0, 1.13395, 7421.0)] == ["12", "1.13", "7,421"]
    said = {0.0: "0%", 0.0004: "<0.1%", 0.004: "0.4%", 0.0149: "1.5%", 0.0996: "10%", 0.15: "15%", 12.5: "1,250%"}
    assert {share: percent(share) for share in said} == said
    assert [ratio(one) for one in (0.98, 1.11, 250.2)] == ["0.980", "1.110", "250"]
    assert number(1234567) == "1,234,567" and number(10**400).startswith("over ")


def test_readings_have_the_unit_that_their_name_has() -> None:
    said = {
        ("cpu_ns", 1.2e9): "1.20 s",
        ("peak_bytes", 1.5e9): "1.5 GB",
        ("gpu_mj", 812.0): "812 mJ",
        ("gpu_mj_per_step", 81_200.0): "81.2 J",
        ("gpu_mw", 35_000.0): "35.0 W",
        ("gpu_MHz_after", 1398.0): "1.40 GHz",
        ("gpu_mhz", 615.0): "615 MHz",
        ("hottest_celsius_after", 61.0): "61 °C",
        ("battery_percent", -0.5): "-0.50%",
        ("threads", 12.0): "12",
        ("cores_busy", 1.13395): "1.13",
        ("anything", 1e300): "1,000,000,000,000,000,000",
    }
    assert {(name, value): reading(name, value) for name, value in said} == said


def unfold(pattern: str) -> set[str]:
    """The names that a pattern stands for, by the grammar that the docstring of ``fold_names`` gives."""
    choices = []
    for part in re.split(r"(\{[0-9,.]+\})", pattern):
        if not part.startswith("{"):
            choices.append([part])
            continue
        numbers: list[str] = []
        for piece in part[1:-1].split(","):
            first, _, last = piece.partition("..")
            numbers += map(str, range(int(first), int(last or first) + 1))
        choices.append(numbers)
    return {"".join(chosen) for chosen in itertools.product(*choices)}


def test_examples() -> None:
    for names, folded in (
        ([], []),
        ([""], [ROOT]),
        (["pooler"], ["pooler"]),
        ([f"encoder.layer.{i}.output" for i in range(12)], ["encoder.layer.{0..11}.output"]),
        (["layer.0", "layer.1"], ["layer.{0,1}"]),
        (["layer.7", "layer.0", "layer.2", "layer.5", "layer.6"], ["layer.{0,2,5..7}"]),
        ([f"layer{i}.{j}.conv1" for i in (1, 2, 3) for j in (0, 1)], ["layer{1..3}.{0,1}.conv1"]),
        (["a.0.b", "c", "a.1.b", "c"], ["a.{0,1}.b", "c"]),
        (["layer.00", "layer.01"], ["layer.00", "layer.01"]),
        (["{0,1}.0", "{0,1}.1"], ["{0,1}.0", "{0,1}.1"]),
        (["a.0.0", "a.0.1", "a.1.1"], ["a.0.{0,1}", "a.1.1"]),
        (["h.٣", "h.٤"], ["h.٣", "h.٤"]),
    ):
        assert fold_names(names) == folded


part = st.sampled_from(["layer", "conv1d", "0", "1", "2", "3", "10", "11", "007", "a_1"])
names = st.lists(st.lists(part, min_size=1, max_size=5).map(".".join), max_size=30)


@given(names)
def test_patterns_stand_for_exactly_the_names(given_names: list[str]) -> None:
    patterns = fold_names(given_names)
    unfolded = [name for pattern in patterns for name in unfold(pattern)]
    assert sorted(unfolded) == sorted(set(given_names))


@given(st.lists(st.text(alphabet="a.0123{}", min_size=1, max_size=12), max_size=12))
def test_nothing_is_lost_or_doubled_in_strange_names(given_names: list[str]) -> None:
    braced = {name for name in given_names if "{" in name or "}" in name}
    patterns = fold_names(given_names)
    assert braced <= set(patterns)
    unfolded = [name for pattern in patterns if pattern not in braced for name in unfold(pattern)]
    assert sorted(unfolded) == sorted(set(given_names) - braced)


def test_many_numbers_in_one_name_take_no_time() -> None:
    long_names = [".".join(["1"] * 2500) + f".{index}" for index in range(200)]
    assert fold_names(long_names) == long_names


HERE = Environment(mpsprobe="0", python="3", platform="x", torch="2.13.0", transformers="5.23.0")
SAFE = re.compile(r"https?://[A-Za-z0-9._~%#?&=+:@/-]+")


def test_lines_of_libraries_have_an_address() -> None:
    modeling = "transformers/models/bert/modeling_bert.py"
    urls = {
        "torch/nn/modules/linear.py:125": "pytorch/pytorch/blob/v2.13.0/torch/nn/modules/linear.py#L125",
        f"{modeling}:164": f"huggingface/transformers/blob/v5.23.0/src/{modeling}#L164",
        **dict.fromkeys(("torch/../secrets.py:1", "/home/user/torch/nn.py:1"), ""),
        **dict.fromkeys(("C:\\project\\model.py:12", "torch/nn.py"), ""),
    }
    for site, url in urls.items():
        [place] = lines([site], HERE)
        assert place.url == (f"https://github.com/{url}" if url else "") and place.full == site
    nightly = HERE.model_copy(update={"torch": "2.16.0.dev20261101"})
    assert lines(["torch/nn/modules/linear.py:125"], nightly)[0].url == "", "an unreleased library has none"


def test_references() -> None:
    assert reference("pytorch/pytorch#195910").url == "https://github.com/pytorch/pytorch/issues/195910"
    assert reference("https://example.org/report").url == "https://example.org/report"
    assert {reference(one).url for one in ("javascript:alert(1)", "see there", "http://a b", "ftp://x/y")} == {""}


@on_any_text
def test_no_string_becomes_another_link(text: str) -> None:
    for place in (reference(text), reference(f"https://{text}"), *lines([text, f"torch/{text}.py:1"], HERE)):
        assert not place.url or SAFE.fullmatch(place.url)


def test_words_say_what_is_not_established() -> None:
    said = [
        (AffectedRange(since="2.8.0", fixed="2.11.0"), "from 2.8.0, fixed in 2.11.0"),
        (AffectedRange(since="2.8.0", open=True), "from 2.8.0, no fix known"),
        (AffectedRange(since="2.8.0", seen=["2.9.0"]), "from 2.8.0, fixed later (where: not established)"),
        (AffectedRange(seen=["2.8.0"], open=True), "seen on 2.8.0 (earlier ones: not established), no fix known"),
        (
            AffectedRange(seen=["2.8.0"], fixed="2.9.0", same_code_since="2.5.0"),
            "seen on 2.8.0 (the same code since 2.5.0), fixed in 2.9.0",
        ),
        (
            AffectedRange(seen=["2.8.0"], same_code_since="2.5.0", same_code_until="2.9.1"),
            "seen on 2.8.0 (the same code from 2.5.0 to 2.9.1), fixed later (where: not established)",
        ),
        (AffectedRange(every=True), "every version"),
        (AffectedRange(), "not established"),
        (AffectedRange(fixed="2.1.0"), "before 2.1.0"),
        (AffectedSystems(), "not established"),
        (AffectedSystems(every=True), "every version"),
        (AffectedSystems(fixed="15.0"), "before 15.0"),
        (AffectedSystems(since="15.0", open=True), "15.0 and newer"),
        (AffectedSystems(since="15.0", fixed="26.4"), "from 15.0 to before 26.4"),
        (AffectedSystems(seen=["26.2"], fixed="26.3"), "seen on 26.2, before 26.3"),
    ]
    for found, words in said:
        assert (systems(found) if isinstance(found, AffectedSystems) else releases(found)) == words
