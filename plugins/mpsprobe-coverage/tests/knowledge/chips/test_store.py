"""Names of chips and sizes of memory, right and wrong ones."""

from __future__ import annotations

import re

import pytest

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe_coverage.knowledge.chips.store import GIB, all_chips, load, machine_named, machine_names, memory_size


def test_a_name_can_be_written_in_several_ways() -> None:
    for text in ("m2-pro-16gb", "M2 Pro 16GB", "apple_m2-pro-16GiB", " m2-pro-16384MB "):
        found = machine_named(text)
        assert (found.name, found.chip.label, found.memory_bytes) == ("m2-pro-16gb", "Apple M2 Pro", 16 * GIB), text


def test_a_name_may_have_the_cores() -> None:
    for text in ("m1-max-32core-64gb", "M1 Max 32-core 64GB", "m1 max 32 cores 64 gb".replace("64 gb", "64gb")):
        found = machine_named(text)
        assert (found.name, found.gpu_cores, found.memory_bytes) == ("m1-max-32core-64gb", 32, 64 * GIB), text
    assert machine_named("m1-max-24core").memory_bytes is None
    with pytest.raises(UsageError, match="no Apple M1 Max with 30 GPU cores") as error:
        machine_named("m1-max-30core")
    assert "24 or 32" in (error.value.hint or "")


def test_every_name_is_its_own() -> None:
    assert [machine_named(name).name for name in machine_names()] == machine_names()
    assert machine_named("m5-ultra-96gb").memory_bytes == 96 * GIB  # no source with all of its sizes


def test_a_machine_that_there_never_was() -> None:
    with pytest.raises(UnknownName) as unknown:
        machine_named("m2-prro")
    assert "m2-pro" in unknown.value.nearest
    with pytest.raises(UnknownName):
        machine_named("m2-pro-lots")
    with pytest.raises(UsageError, match="no Apple M1 with 24gb") as error:
        machine_named("m1-24gb")
    assert "8 or 16 GB" in (error.value.hint or "") and "--memory 24gb" in (error.value.hint or "")


def test_sizes_of_memory() -> None:
    sizes = {"16GB": 16 * GIB, "16 gib": 16 * GIB, "0.5TB": 512 * GIB, "18432MB": 18 * GIB}
    assert {text: memory_size(text) for text in sizes} == sizes
    for text in ("16", "0GB", "-8GB", "16 parsecs", "9999999TB", "1e9GB", "", "٣GB\n"):
        with pytest.raises(UsageError, match="no size of memory"):
            memory_size(text)


def test_the_data_has_a_source_for_everything() -> None:
    document = load("chips.toml")
    used = {key for fields in document["chips"].values() for key in fields["sources"]}
    assert used == set(document["sources"])
    for chip in all_chips().values():
        assert len(chip.bandwidth_gb_per_s) in (1, len(chip.gpu_cores)) and chip.bf16 in ("software", "hardware")
    limits = load("limits.toml")
    threads = [one["source"] for figures in limits.values() for one in figures]
    named = [one["chip"] for figures in limits.values() for one in figures if "chip" in one]
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+|https://\S+", thread) for thread in threads)
    assert set(named) <= set(all_chips())


def test_macs_are_named_as_people_write_them() -> None:
    cases = {
        "M2 Air 16GB": "m2-16gb",
        "MacBook Pro M3 Max 36GB": "m3-max-36gb",
        "M3 MacBook Pro 8GB": "m3-8gb",
        "mac mini m4": "m4",
        "M1 8 GB": "m1-8gb",
        "M1Pro 16 GB": "m1-pro-16gb",
        "Mac Studio M2 Ultra 192GB": "m2-ultra-192gb",
        "MacBook Pro (16-inch, 2021), M1 Pro, 16GB, 512GB SSD": "m1-pro-16gb",
        'MacBook Pro 14" M4 Pro, 24 GB unified memory': "m4-pro-24gb",
    }
    assert {text: machine_named(text).name for text in cases} == cases
    for text in ("M2 Air 16", "MacBook Air", "M2 Utlra 64GB", "M2 16GB 512GB", "Intel iMac 16GB", "m2 pro max"):
        with pytest.raises(UnknownName):
            machine_named(text)
