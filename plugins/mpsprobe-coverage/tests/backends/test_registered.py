"""Backends of other frameworks than torch: what each release registers, and nothing of torch's tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from click.testing import CliRunner
from made_backend import BASIC, Made

from mpsprobe.errors import PluginError, UnknownName, UsageError
from mpsprobe_coverage.commands.kernels import kernels
from mpsprobe_coverage.kernels.backends import family_named
from mpsprobe_coverage.kernels.registered import RegisteredFamily, registered_named


def _entry(operator: str, dtype: str = "float32") -> dict[str, Any]:
    return {"operator": operator, "device": "GPU", "types": {"T": dtype}, "host": []}


class Registered:
    """``Old`` goes, ``New`` comes, ``Late`` is on a newer macOS alone."""

    label = "Other"

    def __init__(self, there: str | None = None) -> None:
        self._there = there

    def releases(self) -> list[str]:
        return ["1.0.0", "1.1.0", "1.10.0"]

    def installed(self) -> str | None:
        return self._there

    def table(self, release: str) -> Mapping[str, Any]:
        names = {"1.0.0": ["Old", "Both"], "1.1.0": ["Both", "New"], "1.10.0": ["Both", "New", "New"]}[release]
        late = [{"macos": "13.0", "asks": ["macOS 13.0"], "registrations": [_entry("Late")]}]
        conditional = [] if release == "1.0.0" else late
        return {"release": release, "registrations": [_entry(name) for name in names], "conditional": conditional}


def _run(*arguments: str) -> Any:
    result = CliRunner().invoke(kernels, [*arguments, "--backend", "made"], catch_exceptions=False)
    return json.loads(result.stdout) if "json" in arguments else result.stdout


def test_releases_by_name() -> None:
    family = RegisteredFamily("made", Registered("1.1.0"))
    assert family.resolve("all") == ["1.0.0", "1.1.0", "1.10.0"]
    assert family.resolve("installed") == family.resolve("1.1") == ["1.1.0"]
    assert family.resolve("latest") == ["1.10.0"]
    assert family.resolve("1.10.0, 1.0") == ["1.0.0", "1.10.0"]
    assert RegisteredFamily("made", Registered()).resolve("installed") == ["1.10.0"]
    with pytest.raises(UnknownName):
        family.resolve("1.11")


def test_the_commands(bring: Any) -> None:
    bring(Registered(), framework="other")
    assert _run("list", "--release", "1.0.0", "--format", "json")["registrations"] == [_entry("Old"), _entry("Both")]
    every = _run("list", "--torch", "all", "--format", "json")
    assert [one["release"] for one in every] == ["1.0.0", "1.1.0", "1.10.0"]
    assert "3 registrations of 2 operators" in _run("list")
    assert "besides, from macOS 13.0 on: 1 registration of 1 operator" in _run("list")
    since = _run("since", "old", "Both", "Late", "--format", "json")
    assert [one["native_since"] for one in since] == [None, "1.0.0", "1.1.0"]
    assert "T=float32 from macOS 13.0" in _run("show", "Late")
    difference = _run("diff", "1.0.0", "latest", "--format", "json")
    assert (difference["gained"], difference["lost"]) == (["Late", "New"], ["Old"])
    assert len(difference["registrations"]["added"]) == 3
    assert "added: 3 registrations of 2 operators" in _run("diff", "1.0.0", "latest")


def test_torch_models_are_not_judged_by_it(bring: Any) -> None:
    bring(Registered(), framework="other")
    with pytest.raises(UsageError, match="a backend of other, not of torch"):
        family_named("made")


def test_a_plugin_that_made_something_else(bring: Any) -> None:
    bring(object(), framework="other")
    with pytest.raises(PluginError, match="RegisteredKernels"):
        registered_named("made")
    bring(Made(BASIC))
    assert registered_named("made") is None
    assert registered_named("not_there") is None
