"""The data files, one for each area, as checked advisories."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Iterable
from importlib.resources import files

from pydantic import ValidationError

from mpsprobe.errors import MpsprobeError, UnknownName
from mpsprobe_coverage.knowledge.advisories.model import Advisory


@functools.cache
def all_advisories() -> tuple[Advisory, ...]:
    by_id: dict[str, Advisory] = {}
    folder = files("mpsprobe_coverage.knowledge.advisories") / "data"
    for entry in folder.iterdir():
        for advisory in parse(entry.read_text(encoding="utf-8"), entry.name) if entry.name.endswith(".toml") else ():
            if advisory.id in by_id:
                raise MpsprobeError(f"{entry.name}: the advisory '{advisory.id}' is there twice")
            by_id[advisory.id] = advisory
    return tuple(by_id[name] for name in sorted(by_id))


def parse(text: str, name: str) -> list[Advisory]:
    """The advisories of one data file called ``name``."""
    try:
        document = tomllib.loads(text)
        return [Advisory.model_validate(entry) for entry in document["advisory"]]
    except (tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise MpsprobeError(f"{name} holds no list of advisories: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise MpsprobeError(f"{name}: {where}: {first['msg']}") from None


@functools.cache
def advisories_for(release: str, macos_minimum: str | None = None) -> tuple[Advisory, ...]:
    """Those that are known to concern a torch release, and a macOS that it runs on; see ``Advisory.affects``."""
    return tuple(advisory for advisory in all_advisories() if advisory.affects(release, macos_minimum))


def number_for(release: str, macos_minimum: str | None, macos: str | None, chip: str | None) -> int:
    """How many concern a release that runs on ``macos_minimum``, on that macOS and chip; None for any."""
    return sum(one.affects(release, macos_minimum, macos, chip) for one in all_advisories())


def named(names: Iterable[str]) -> list[Advisory]:
    known = {advisory.id: advisory for advisory in all_advisories()}
    names = list(dict.fromkeys(names))
    for name in names:
        if name not in known:
            raise UnknownName("advisory", name, known, "mpsprobe advisories list shows them all.")
    return [known[name] for name in names]
