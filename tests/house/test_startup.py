"""What the quick commands do not import: that is what keeps them quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mpsprobe.plugins.discovery import find_plugins

HEAVY = {"torch", "pydantic", "transformers", "torchvision", "numpy", "rich", "lief", "capstone", "hypothesis"}
QUICK = [
    "--version",
    "--help",
    "plugins --help",
    "export --help",
    "workloads list",
    "plugins list",
    "plugins list --format json",
]
RUN = """
import sys
from mpsprobe.cli.main import main
code = main(sys.argv[1:])
print("", code, *(name for name in sys.modules if "." not in name), file=sys.stderr)
"""
THIN = """
import sys
from importlib import import_module
for target in sys.argv[2:]:
    import_module(target.partition(":")[0])
    assert not set(sys.argv[1].split()) & set(sys.modules), target
"""


def _printed(code: str, *arguments: str) -> tuple[str, str]:
    command = [sys.executable, "-c", code, *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8")
    return ended.stdout, ended.stderr


@pytest.mark.parametrize("line", QUICK)
def test_quick_commands_import_nothing_heavy(line: str) -> None:
    code, *modules = _printed(RUN, *line.split())[1].splitlines()[-1].split()
    assert code == "0" and not HEAVY.intersection(modules)


def test_thin_modules_import_nothing_heavy() -> None:
    targets = [one.target for one in find_plugins() if one.distribution.startswith("mpsprobe")]
    assert len(targets) > 5
    _printed(THIN, " ".join(HEAVY), *targets)


def test_the_first_line_of_main_costs_nothing() -> None:
    code = "import sys; before = set(sys.modules); import mpsprobe.cli.main; print(*set(sys.modules) - before)"
    assert "click" not in _printed(code)[0].split()
