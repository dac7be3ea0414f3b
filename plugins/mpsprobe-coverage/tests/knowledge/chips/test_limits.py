"""What Metal lets a process take: published figures, and shares of them where there is none."""

from __future__ import annotations

import pytest

from mpsprobe.errors import UsageError
from mpsprobe_coverage.knowledge.chips.limits import figures, limits_of
from mpsprobe_coverage.knowledge.chips.store import GIB, all_chips


def test_figures_that_disagree_are_a_range() -> None:
    found = limits_of("m1-16gb").recommended
    assert found.basis == "published" and len(found.figures) == 5
    assert (round(found.low / GIB, 2), round(found.high / GIB, 2)) == (10.67, 11.84)
    assert limits_of(16 * GIB) == limits_of("m4-16gb")


def test_without_a_figure_it_is_the_shares_of_the_sizes_beside() -> None:
    found = limits_of("m3-pro-18gb").recommended
    assert found.basis == "neighbours" and {one.memory_bytes for one in found.figures} == {16 * GIB, 32 * GIB}
    adjacent = (limits_of(16 * GIB).recommended, limits_of(32 * GIB).recommended)
    assert found.low / 18 == pytest.approx(min(adjacent[0].low / 16, adjacent[1].low / 32), rel=1e-6)
    assert found.high / 18 == pytest.approx(max(adjacent[0].high / 16, adjacent[1].high / 32), rel=1e-6)
    assert {one.memory_bytes for one in limits_of("m3-ultra-512gb").recommended.figures} == {256 * GIB}


def test_the_largest_buffer() -> None:
    assert limits_of(8 * GIB).largest_buffer.low == 4 * GIB == limits_of(8 * GIB).largest_buffer.high
    derived, recommended = limits_of(128 * GIB).largest_buffer, limits_of(128 * GIB).recommended
    assert derived.basis == "recommended"
    assert (derived.low, derived.high) == (recommended.low * 3 // 4, recommended.high * 3 // 4)


def test_every_mac_has_limits_within_its_memory() -> None:
    for chip in all_chips().values():
        for size in chip.memory_gib:
            limits = limits_of(f"{chip.name}-{size}gb")
            assert 0 < limits.recommended.low <= limits.recommended.high < size * GIB
            assert 0 < limits.largest_buffer.low <= limits.largest_buffer.high < limits.recommended.high
    assert all(one.value < one.memory_bytes for one in (*figures("recommended"), *figures("largest_buffer")))


def test_a_chip_with_several_memories_needs_one() -> None:
    with pytest.raises(UsageError, match="how much memory does the Apple M2 Pro have") as error:
        limits_of("m2-pro")
    assert "16 or 32 GB" in (error.value.hint or "") and "m2-pro-16gb" in (error.value.hint or "")
