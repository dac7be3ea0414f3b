"""Measures everything that mpsprobe claims about speed and size: ``python benchmarks/run.py``.

Each figure is a median with its smallest and largest value; ratios are taken pair by pair, from processes
that ran one right after the other, so that they hold on a busy machine too. Nothing is written but what
``--json`` names. The exit code is 0 if every figure is reached, 1 if one is missed, 2 if one could not be
measured.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from figures import FULL, GROUPS, QUICK, Figure
from measure import BenchmarkFailed

PACKAGES = ("mpsprobe", "torch", "transformers", "click")


def main() -> int:
    """Measure, print a table, and say how it went."""
    arguments = _arguments()
    effort = QUICK if arguments.quick else FULL
    about = machine()
    _say(", ".join(f"{name} {value}" for name, value in about.items()))
    found: dict[str, list[Figure]] = {}
    failed = False
    for name in arguments.only or GROUPS:
        try:
            found[name] = GROUPS[name](effort, _tell)
        except BenchmarkFailed as error:
            failed = True
            _tell("")
            sys.stderr.write(f"{name} could not be measured: {error}\n")
            continue
        _tell("")
        for figure in found[name]:
            _say(line(figure))
    load = _load()
    if load:
        _say(f"load at the end {load}")
    if arguments.json:
        document = {"machine": about, "load_at_end": load, "figures": _plain(found)}
        arguments.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    missed = any(figure.reached() is False for figures in found.values() for figure in figures)
    return 2 if failed else 1 if missed else 0


def line(figure: Figure) -> str:
    """``coverage llama-3-70b    8.1 s (7.9 to 8.4)  reach 12 s: yes``."""
    if figure.value is None:
        return f"{figure.what:72}  not measured on this platform"
    spread = figure.value
    text = f"{_number(spread.median)} {figure.unit}"
    if spread.low != spread.high:
        text += f" ({_number(spread.low)} to {_number(spread.high)})"
    reached = figure.reached()
    if reached is not None and figure.reach is not None:
        text = f"{text:32}  reach {figure.reach:g} {figure.unit}: {'yes' if reached else 'NO'}"
    return f"{figure.what:72}  {text}"


def machine() -> dict[str, str]:
    """What the figures were taken on."""
    about = {"platform": f"{platform.system()} {platform.machine()}", "cores": str(os.cpu_count())}
    about["python"] = platform.python_version()
    for package in PACKAGES:
        about[package] = metadata.version(package)
    load = _load()
    return {**about, "load": load} if load else about


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repeats: to see that it works, not to quote")
    parser.add_argument("--only", action="append", choices=list(GROUPS), metavar="NAME", help=", ".join(GROUPS))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE too")
    return parser.parse_args()


def _load() -> str:
    try:
        return " ".join(f"{value:.2f}" for value in os.getloadavg())
    except (AttributeError, OSError):  # Windows has no such thing
        return ""


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}" if value >= 0.1 else f"{value:.3f}"


def _plain(found: dict[str, list[Figure]]) -> dict[str, Any]:
    return {
        name: [
            {
                "what": figure.what,
                "unit": figure.unit,
                "median": figure.value and figure.value.median,
                "low": figure.value and figure.value.low,
                "high": figure.value and figure.value.high,
                "reach": figure.reach,
                "reached": figure.reached(),
            }
            for figure in figures
        ]
        for name, figures in found.items()
    }


def _say(what: str) -> None:
    sys.stdout.write(what + "\n")
    sys.stdout.flush()


def _tell(what: str) -> None:
    """One line on standard error that is overwritten, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{what}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
