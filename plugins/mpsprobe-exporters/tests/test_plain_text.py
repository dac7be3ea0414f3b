"""Strings on one line, and amounts in words: the same amount is written the same way wherever it stands."""

from __future__ import annotations

from hostile import texts
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe_exporters.plain_text import call_site, listed, one_line, plural, shortened
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
