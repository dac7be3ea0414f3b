"""Amounts in words: the same amount is written the same way wherever it stands."""

from __future__ import annotations

from mpsprobe_exporters.units import amount, byte_size, duration, number, percent, plain, quantity, ratio, reading


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
