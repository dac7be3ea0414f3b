"""What the quick commands do not import: that is what keeps them quick."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mpsprobe.plugins.discovery import find_plugins

HEAVY = {"torch", "pydantic", "transformers", "torchvision", "numpy", "rich", "lief", "capstone", "hypothesis"}
RUN = """
import json, sys
from mpsprobe.cli.main import main
code = main(sys.argv[1:])
print(json.dumps([code, sorted(name for name in sys.modules if "." not in name)]), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["--version"],
        ["--help"],
        ["plugins", "list"],
        ["plugins", "--help"],
        ["plugins", "list", "--format", "json"],
        ["workloads", "list"],
        ["export", "--help"],
    ],
    ids=" ".join,
)
def test_quick_commands_import_nothing_heavy(arguments: list[str]) -> None:
    import json

    finished = subprocess.run(
        [sys.executable, "-c", RUN, *arguments], capture_output=True, text=True, check=True, encoding="utf-8"
    )
    code, modules = json.loads(finished.stderr.splitlines()[-1])
    assert code == 0, finished.stderr
    assert not HEAVY.intersection(modules)


@pytest.mark.parametrize("target", [one.target for one in find_plugins() if one.distribution.startswith("mpsprobe")])
def test_thin_modules_import_nothing_heavy(target: str) -> None:
    code = f"import sys, {target.partition(':')[0]}; print(*{HEAVY!r}.intersection(sys.modules))"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert finished.stdout.split() == []


def test_the_first_line_of_main_costs_nothing() -> None:
    code = "import sys; before = set(sys.modules); import mpsprobe.cli.main; print(*set(sys.modules) - before)"
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "click" not in finished.stdout.split()
