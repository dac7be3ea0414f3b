"""Every code that ``mpsprobe plugins check`` can report: what it means, why it matters, what to do. Public.

The codes are stable: a CI configuration may name them. The reference of the documentation is made of this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

ERROR, WARNING = "error", "warning"
LEVELS = (ERROR, WARNING)
GROUPS = ("package", "import", "hooks", "declarations", "targets", "contracts", "tests")
"""The parts of a check, in the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Code:
    """One thing that can be wrong.

    Attributes:
        level: ``error`` (mpsprobe leaves the plugin or a part of it out, or a user meets a failure) or ``warning``.
        group: the part of the check that finds it, one of ``GROUPS``.
        summary: what it means, one sentence.
        why: what happens to a user because of it.
        what_to_do: the advice that is shown where a finding has none of its own.
    """

    level: str
    group: str
    summary: str
    why: str
    what_to_do: str


CODES: Mapping[str, Code] = MappingProxyType({
    # -- package: what the distribution says about itself ---------------------------------------------
    "bad-pyproject": Code(
        ERROR, "package", "pyproject.toml cannot be read as the description of a project.",
        "Nothing can be built or installed from it.",
        "Make it valid TOML with a [project] table that has a name.",
    ),
    "bad-wheel": Code(
        ERROR, "package", "The wheel is not a zip file of the form that installers take.",
        "Installers refuse it, or put files where none should be.",
        "Build it again: python -m build",
    ),
    "bad-inline-metadata": Code(
        ERROR, "package", "The inline metadata of a single file cannot be read (PEP 723).",
        "mpsprobe leaves the file out.",
        "Close the block '# /// script' with '# ///' and write TOML in it.",
    ),
    "no-entry-point": Code(
        ERROR, "package", "The distribution has no entry point in the group 'mpsprobe'.",
        "mpsprobe never finds the plugin.",
        'Add to pyproject.toml: [project.entry-points.mpsprobe] with a line like mine = "mine.plugin"',
    ),
    "bad-entry-point": Code(
        ERROR, "package", "An entry point is not of the form 'package.module' or 'package.module:attribute'.",
        "Installers refuse it, or mpsprobe cannot import it.",
        'Write it as: mine = "mine.plugin"',
    ),
    "missing-metadata": Code(
        WARNING, "package", "The distribution does not say something that users look for before they install it.",
        "A page of a package index without description, licence or supported Python versions is passed by.",
        "Add it to [project] in pyproject.toml.",
    ),
    "requires-mpsprobe": Code(
        WARNING, "package", "The dependencies do not name mpsprobe with the oldest version that the plugin works with.",
        "With an older mpsprobe the plugin fails where it could have been refused with both versions named.",
        'Add "mpsprobe>=0.1" to the dependencies.',
    ),
    "incompatible": Code(
        ERROR, "package", "The plugin asks for another version of mpsprobe or of Python than this one.",
        "mpsprobe refuses it without importing it.",
        "Check it with a version that it supports, or widen what it asks for.",
    ),
    "requires-unmet": Code(
        WARNING, "package", "Something that the plugin depends on is not installed here, or in another version.",
        "What needs it cannot be checked.",
        "Install it and check again.",
    ),
    "undeclared-dependency": Code(
        WARNING, "package", "A module imports a package that no dependency of the plugin provides.",
        "It works here because something else brought that package, and fails in a clean environment.",
        "Add what provides it to the dependencies, or import it inside try/except ImportError.",
    ),
    "imports-private": Code(
        WARNING, "package", "A module imports something of mpsprobe that is not public.",
        "It may change in any release without notice.",
        "Import from the public modules only.",
    ),
    "py-typed-missing": Code(
        WARNING, "package", "The package has no py.typed file.",
        "Type checkers ignore its annotations.",
        "Add an empty file py.typed next to __init__.py.",
    ),
    "not-in-wheel": Code(
        ERROR, "package", "A module that the plugin names is not in its wheel.",
        "It works in the checkout and fails once installed.",
        "Have the build include it; most often an __init__.py or a package in the build's settings is missing.",
    ),
    # -- import: the thin module --------------------------------------------------------------------
    "entry-point-unresolved": Code(
        ERROR, "import", "The module or attribute that an entry point names is not there.",
        "mpsprobe leaves the plugin out.",
        "Name a module that exists.",
    ),
    "import-failed": Code(
        ERROR, "import", "Importing the thin module raises an exception.",
        "mpsprobe leaves the plugin out.",
        "Make 'python -c \"import MODULE\"' work.",
    ),
    "import-exits": Code(
        ERROR, "import", "Importing the thin module ends the process, on purpose or by a crash.",
        "mpsprobe leaves the plugin out, and a crash takes every command with it.",
        "Never call exit at import; load native code when it is used.",
    ),
    "import-hangs": Code(
        ERROR, "import", "Importing the thin module does not end within the time limit.",
        "Every command waits for it until mpsprobe gives up.",
        "Wait for nothing at import: no network, no lock, no input.",
    ),
    "import-prints": Code(
        WARNING, "import", "Importing the thin module prints.",
        "It stands above the output of every command.",
        "Remove the print, or log at the level DEBUG.",
    ),
    "changes-warnings": Code(
        WARNING, "import", "Importing the thin module changes the filter of warnings.",
        "mpsprobe puts it back, so it has no effect there, and elsewhere it silences others.",
        "Use warnings.catch_warnings around the code that needs it.",
    ),
    "changes-process": Code(
        WARNING, "import", "Importing the thin module changes the process: its folder, environment, signals, threads.",
        "Every command behaves differently because the plugin is installed.",
        "Do it where it is needed, and undo it there.",
    ),
    "heavy-import": Code(
        ERROR, "import", "The thin module imports torch, pydantic or another heavy package.",
        "Every command pays for it, also those that never use the plugin: torch takes seconds, pydantic 90 ms.",
        "Import it in the module behind a target, or inside the function that uses it.",
    ),
    "slow-import": Code(
        WARNING, "import", "Importing the thin module takes long.",
        "Every command starts that much later.",
        "Only declare in it; move everything else behind a target.",
    ),
    # -- hooks --------------------------------------------------------------------------------------
    "no-hooks": Code(
        WARNING, "hooks", "The thin module implements no hook.",
        "The plugin loads and contributes nothing.",
        "Mark a hook with @mpsprobe.hookimpl; docs/plugins/hooks.md lists them.",
    ),
    "unknown-hook": Code(
        ERROR, "hooks", "A function is marked as a hook that does not exist.",
        "mpsprobe leaves the plugin out.",
        "Correct the name; a hook of a later mpsprobe is marked @hookimpl(optionalhook=True).",
    ),
    "unmarked-hook": Code(
        ERROR, "hooks", "A function is named like a hook and has no @mpsprobe.hookimpl.",
        "mpsprobe leaves the plugin out, because the function would never be called.",
        "Put @mpsprobe.hookimpl above it, or call it something else.",
    ),
    "hook-wrapper": Code(
        ERROR, "hooks", "A hook is marked as a wrapper.",
        "Each plugin is asked by itself, so there is nothing to wrap; mpsprobe leaves the plugin out.",
        "Remove wrapper=True.",
    ),
    "wrong-argument": Code(
        ERROR, "hooks", "A hook function takes an argument that its hook does not have.",
        "mpsprobe leaves the plugin out.",
        "Take only arguments that the hook has; fewer are fine.",
    ),
    "deprecated-hook": Code(
        WARNING, "hooks", "A hook will go away.",
        "A later mpsprobe leaves the plugin out.",
        "Use what replaces it.",
    ),
    "hook-failed": Code(
        ERROR, "hooks", "A hook raises an exception.",
        "mpsprobe goes on without what the plugin would have answered.",
        "A hook that lists names should only list them: look for what raises behind the targets.",
    ),
    "hook-exits": Code(
        ERROR, "hooks", "A hook ends the process, on purpose or by a crash.",
        "mpsprobe goes on without the plugin; a crash ends the command.",
        "Raise an error of mpsprobe.errors instead.",
    ),
    "hook-hangs": Code(
        ERROR, "hooks", "A hook does not end within the time limit.",
        "Every command that asks it waits until mpsprobe gives up.",
        "Wait for nothing in a hook that lists: no network, no lock, no input.",
    ),
    "slow-hook": Code(
        WARNING, "hooks", "A hook that lists takes more than a second.",
        "Every command that asks it starts that much later; mpsprobe_commands is asked by all of them.",
        "Make the list when the plugin is built or installed, or keep it in a file.",
    ),
    "hook-prints": Code(
        WARNING, "hooks", "A hook prints.",
        "It stands between the lines of the command that asked.",
        "Return declarations, print nothing.",
    ),
    "wrong-answer": Code(
        ERROR, "hooks", "A hook returns something else than it should.",
        "mpsprobe goes on without what the plugin would have answered.",
        "Return what docs/plugins/hooks.md says.",
    ),
    "claims-every-name": Code(
        ERROR, "hooks", "mpsprobe_resolve_workload answers to names that are nobody's.",
        "Every misspelt workload becomes one of this plugin's, and nearest names are never shown.",
        "Answer None to every name that is not of your form.",
    ),
    "left-out": Code(
        ERROR, "hooks", "mpsprobe leaves the plugin out for a reason that no other code has.",
        "Nothing that the plugin offers can be used.",
        "The message is what mpsprobe says when it loads the plugin.",
    ),
    # -- declarations -------------------------------------------------------------------------------
    "wrong-type": Code(
        ERROR, "declarations", "An element of a hook's answer is not of the type that this hook returns.",
        "mpsprobe goes on without the whole answer.",
        "Return the declaration that docs/plugins/hooks.md names.",
    ),
    "bad-field": Code(
        ERROR, "declarations", "A field of a declaration has a wrong type or a value that means nothing.",
        "mpsprobe goes on without the whole answer, or never offers what was declared.",
        "mpsprobe/declarations.py says what each field is.",
    ),
    "bad-name": Code(
        ERROR, "declarations", "A declared name is none that a user could type without quoting.",
        "mpsprobe goes on without the whole answer.",
        "Use lower-case letters, digits, '-', '.' and '_', beginning with a letter or digit.",
    ),
    "bad-summary": Code(
        WARNING, "declarations", "A summary is empty, too long for one line, or has line breaks.",
        "Lists and --help show nothing or a torn table.",
        "Say in one sentence what it is.",
    ),
    "duplicate-name": Code(
        ERROR, "declarations", "One plugin declares a name twice.",
        "mpsprobe goes on without the whole answer.",
        "Give each its own name.",
    ),
    "name-taken": Code(
        ERROR, "declarations", "A declared name is that of mpsprobe itself or of another installed plugin.",
        "A name that two plugins declare belongs to neither; one of mpsprobe itself stays there.",
        "Choose another name, for instance with the plugin's own name in front.",
    ),
    # -- targets ------------------------------------------------------------------------------------
    "target-unresolved": Code(
        ERROR, "targets", "A target names a module or attribute that is not there, or needs a package that is not.",
        "The user meets the error when the declared thing is used.",
        "Correct the target, or declare what it needs as a dependency.",
    ),
    "target-fails": Code(
        ERROR, "targets", "Importing a target or making its object raises an exception.",
        "The user meets the error when the declared thing is used.",
        "Make it without arguments work on every machine; say in unavailable() what a machine lacks.",
    ),
    "target-exits": Code(
        ERROR, "targets", "Importing a target or making its object ends the process.",
        "The user's command ends in the middle.",
        "Raise an error of mpsprobe.errors instead.",
    ),
    "target-hangs": Code(
        ERROR, "targets", "Importing a target or making its object does not end within the time limit.",
        "The user's command waits for ever.",
        "Do long work when the object is used, not when it is made.",
    ),
    "wrong-protocol": Code(
        ERROR, "targets", "The object behind a target lacks what its protocol has, or takes other arguments.",
        "mpsprobe refuses it, or fails in the middle of a run.",
        "mpsprobe/protocols.py says what it needs.",
    ),
    # -- contracts and tests ------------------------------------------------------------------------
    "contract-broken": Code(
        ERROR, "contracts", "The object breaks a clause of the contract that mpsprobe_devkit.testing checks.",
        "Some report, setting or machine makes it fail or lie.",
        "Run the contract as a test to see where: mpsprobe_devkit.testing has one function for each kind.",
    ),
    "contract-hangs": Code(
        ERROR, "contracts", "The contract does not end within the time limit, or ends the process.",
        "Some report, setting or machine makes it hang.",
        "Run the contract as a test to see where: mpsprobe_devkit.testing has one function for each kind.",
    ),
    "tests-failed": Code(
        ERROR, "tests", "The plugin's own tests fail.",
        "It does not do what its author says.",
        "Run pytest in the folder.",
    ),
    "no-tests": Code(
        WARNING, "tests", "There are no tests in the folder.",
        "Nothing tells when a new mpsprobe breaks the plugin.",
        "mpsprobe_devkit.testing has a contract for each kind: one line makes a test of it.",
    ),
})  # fmt: skip
