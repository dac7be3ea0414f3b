"""One plugin for each code, which is sound but for that."""

from __future__ import annotations

from typing import NamedTuple

from made_projects import COMMAND


class Broken(NamedTuple):
    """A way to be broken: the arguments of ``make_project``, and what a finding says and where."""

    code: str = COMMAND
    modules: dict[str, str | None] = {}
    changes: dict[str, str] = {}
    says: str = ""
    where: str = "src/under_test/plugin.py"


def _listing(body: str, hook: str = "mpsprobe_commands") -> str:
    return f"@hookimpl\ndef {hook}():\n    {body}\n"


def _command(target: str = "under_test.command:hello", name: str = "hello-under-test", summary: str = "Says.") -> str:
    return _listing(f"return [CommandDeclaration({name!r}, {target!r}, {summary!r})]")


PYPROJECT = "pyproject.toml"
DEPENDENCY = 'dependencies = ["mpsprobe>=0.1"]'
BROKEN = {
    "bad-pyproject": Broken(changes={'name = "under-test"': "name = "}, says="not TOML", where=PYPROJECT),
    "no-entry-point": Broken(
        changes={"entry-points.mpsprobe": "entry-points.mpsprobes"}, says="no [project.entry", where=PYPROJECT
    ),
    "bad-entry-point": Broken(changes={"under_test.plugin": "under test"}, says="'under test'", where=PYPROJECT),
    "missing-metadata": Broken(changes={'readme = "README.md"\n': ""}, says="readme", where=PYPROJECT),
    "requires-mpsprobe": Broken(changes={"mpsprobe>=0.1": "mpsprobe<9"}, says="no lower bound", where=PYPROJECT),
    "incompatible": Broken(changes={"mpsprobe>=0.1": "mpsprobe>=99"}, says=">=99", where=PYPROJECT),
    "requires-unmet": Broken(
        changes={DEPENDENCY: 'dependencies = ["mpsprobe>=0.1", "no-such-distribution-0b7e>=2"]'},
        says="no-such-distribution-0b7e>=2, which is not installed",
        where=PYPROJECT,
    ),
    "undeclared-dependency": Broken(
        modules={"other.py": "def f():\n    import hypothesis\n"}, says="hypothesis", where="src/under_test/other.py:2"
    ),
    "imports-private": Broken(
        "from mpsprobe.plugins.loading import describe\n" + COMMAND,
        says="mpsprobe.plugins.loading",
        where="src/under_test/plugin.py:4",
    ),
    "py-typed-missing": Broken(modules={"py.typed": None}, says="under_test", where="src/under_test"),
    "entry-point-unresolved": Broken(
        changes={"under_test.plugin": "under_test.plugins"}, says="under_test.plugins", where="entry point mine"
    ),
    "import-failed": Broken("raise ValueError('not today')\n" + COMMAND, says="ValueError: not today"),
    "import-exits": Broken("raise SystemExit(3)\n" + COMMAND, says="calls exit (3)"),
    "import-hangs": Broken("import time\ntime.sleep(60)\n" + COMMAND, says="within 1 s"),
    "import-prints": Broken("print('hello')\n" + COMMAND, says="'hello'", where="entry point mine"),
    "changes-warnings": Broken("import warnings\nwarnings.simplefilter('ignore')\n" + COMMAND, says="filter"),
    "changes-process": Broken("import os\nos.environ['UNDER_TEST'] = 'x'\n" + COMMAND, says="variable UNDER_TEST"),
    "heavy-import": Broken(
        "import under_test.model\n" + COMMAND,
        modules={"model.py": "import pydantic\n"},
        says="src/under_test/plugin.py:4 → src/under_test/model.py:1 → pydantic",
        where="src/under_test/plugin.py:4",
    ),
    "no-hooks": Broken("x = 1\n", says="no hook", where=""),
    "unknown-hook": Broken(COMMAND + _listing("return []", "mpsprobe_probe"), says="mean 'mpsprobe_probes'?"),
    "unmarked-hook": Broken(COMMAND + "def mpsprobe_probes():\n    return []\n", says="mpsprobe_probes has no @"),
    "hook-wrapper": Broken(
        COMMAND + "@hookimpl(wrapper=True)\ndef mpsprobe_probes():\n    return (yield)\n", says="a wrapper"
    ),
    "wrong-argument": Broken(
        "@hookimpl\ndef mpsprobe_before_run(workloads, phase):\n    pass\n", says="did you mean 'workload'?"
    ),
    "hook-failed": Broken(_listing("return 1 / 0"), says="ZeroDivisionError", where="src/under_test/plugin.py:6"),
    "hook-exits": Broken(
        "import os\n" + _listing("os._exit(4)"), says="exit code 4", where="src/under_test/plugin.py"
    ),
    "hook-hangs": Broken("import time\n" + _listing("time.sleep(60)"), says="within 1 s"),
    "slow-hook": Broken("import time\n" + _listing("time.sleep(1.1); return []"), says="takes 1."),
    "hook-prints": Broken(_listing("print('x' * 300); return []"), says="'xxx"),
    "wrong-answer": Broken(_listing("return None"), says="returns a NoneType instead of a list"),
    "claims-every-name": Broken(
        "@hookimpl\ndef mpsprobe_resolve_workload(name):\n"
        "    if ':' not in name and '/' not in name and '@' not in name:\n"
        "        return WorkloadDeclaration(name, 'under_test.command:hello', 'Any.')\n",
        says="answers to 'no-such-workload",
    ),
    "wrong-type": Broken(_listing("return ['net']"), says="a str instead of a CommandDeclaration"),
    "bad-field": Broken(
        _listing("return [ExporterDeclaration('under-test', 'under_test.exporter:Exporter', 'It.', 'txt')]").replace(
            "mpsprobe_commands", "mpsprobe_exporters"
        ),
        modules={"exporter.py": "class Exporter:\n    def render(self, report): return ''\n"},
        says="the extension 'txt'",
    ),
    "bad-name": Broken(_command(name="Hello You"), says="'Hello You'"),
    "bad-summary": Broken(_command(summary="one\ntwo"), says="line breaks"),
    "duplicate-name": Broken(_command().replace("return [", "return 2 * ["), says="is declared twice"),
    "name-taken": Broken(_command(name="plugins"), says="'plugins' is declared by mpsprobe itself"),
    "target-unresolved": Broken(_command("under_test.command:helo"), says="no attribute 'helo'"),
    "target-fails": Broken(
        _command(), modules={"command.py": "raise OSError('gone')\n"}, says="OSError: gone", where="command.py:1"
    ),
    "target-exits": Broken(_command(), modules={"command.py": "raise SystemExit\n"}, says="exit", where="command"),
    "target-hangs": Broken(
        _command(), modules={"command.py": "import time\ntime.sleep(60)\n"}, says="within 6 s", where="command.py:2"
    ),
    "wrong-protocol": Broken(
        _command(), modules={"command.py": "def hello(): pass\n"}, says="is a function instead of a click.Command",
        where="src/under_test/command.py:1",
    ),
}  # fmt: skip
ELSEWHERE = {
    "bad-wheel",  # test_distributions.py
    "not-in-wheel",
    "bad-inline-metadata",
    "left-out",
    "slow-import",  # test_examination.py
    "contract-broken",
    "contract-hangs",
    "deprecated-hook",  # test_hooks.py
    "tests-failed",  # test_own_tests.py
    "no-tests",
}
"""Codes whose plugins are no projects like these."""
