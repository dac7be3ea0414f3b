"""What 50 installed plugins cost at start-up."""

from __future__ import annotations

import compileall
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from measure import Command, python, ratio, run_rounds, seconds

from mpsprobe.plugins.discovery import find_plugins
from mpsprobe_devkit.testing import install_plugin

if TYPE_CHECKING:
    from figures import Effort, Figure

COUNT = 50
COMMANDS = (("--help",), ("plugins", "list"), ("workloads", "list"), ("--version",))
# What an author's thin module looks like: two hooks, three declarations, in a package of its own with its metadata.
THIN = '''
"""What this distribution offers."""

from __future__ import annotations

from mpsprobe import hookimpl
from mpsprobe.declarations import ExporterDeclaration, WorkloadDeclaration


@hookimpl
def mpsprobe_workloads() -> list[WorkloadDeclaration]:
    return [WorkloadDeclaration(f"net-{number}-{{size}}", "net_{number}.model:make", "A net.") for size in ("s", "l")]


@hookimpl
def mpsprobe_exporters() -> list[ExporterDeclaration]:
    return [ExporterDeclaration("format-{number}", "net_{number}.export:Format", "A format.", ".f{number}")]
'''
# Both sides run the same code; only what lies in the folder differs. mpsprobe's own plugins are switched off in both.
RUN = (
    "import sys; sys.path.append({folder!r}); from mpsprobe.cli.main import main; "
    "sys.exit(main([*{switches!r}, *{arguments!r}]))"
)


def many_plugins(effort: Effort, tell: Callable[[str], None]) -> list[Figure]:
    """Quick commands with 50 plugins ÷ the same with none, process by process."""
    from figures import Figure

    switches = [word for one in find_plugins() if one.name != "core" for word in ("-p", f"no:{one.name}")]
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="mpsprobe-bench-") as none, tempfile.TemporaryDirectory() as many:
        for number in range(COUNT):
            points = f"[mpsprobe]\nnet-{number} = net_{number}.plugin\n"
            install_plugin(Path(many), f"net-{number}", "", entry_points=points)
            package = Path(many, f"net_{number}")
            package.mkdir()
            (package / "__init__.py").write_text("", encoding="utf-8")
            (package / "plugin.py").write_text(THIN.format(number=number), encoding="utf-8")
            with Path(many, f"net_{number}-1.0.dist-info", "METADATA").open("a", encoding="utf-8") as metadata:
                metadata.write("Requires-Dist: mpsprobe>=0.1\nRequires-Dist: torch>=2.6\n")
        compileall.compile_dir(many, quiet=2)  # as an installer does
        for arguments in COMMANDS:
            name = " ".join(arguments)
            commands: dict[str, Command] = {
                what: python(RUN.format(folder=folder, switches=switches, arguments=arguments))
                for what, folder in (("none", none), ("many", many))
            }
            samples = run_rounds(commands, effort.quick_commands, max(1, effort.warm_up), tell)
            found.append(Figure(f"{name} with {COUNT} plugins ÷ with none", "x", ratio(samples, "many", "none"), 1.5))
            found.append(Figure(f"{name} with none", "s", seconds(samples["none"])))
    return found
