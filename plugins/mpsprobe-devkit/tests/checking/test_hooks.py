"""Hook functions, found by importing and by reading, compared with the existing hooks."""

from __future__ import annotations

import ast
import types
from typing import Any

import pluggy

from mpsprobe import hookimpl, hookspecs
from mpsprobe.plugins.loading import HOOK_PREFIX
from mpsprobe_devkit.checking.hooks import (
    Hook,
    HookFunction,
    callable_ones,
    functions_in,
    functions_of,
    judged,
    known_hooks,
)

SOURCE = """
import mpsprobe
from mpsprobe import hookimpl

if True:
    @hookimpl(optionalhook=True)
    def mpsprobe_later(a, b=1, *rest, c, d=2): ...

@mpsprobe.hookimpl(specname="mpsprobe_probes", wrapper=True)
def probes(): yield

class Plugin:
    @hookimpl
    def mpsprobe_devices(self, x): ...
    def mpsprobe_not_marked(self): ...

def mpsprobe_scanners(): ...
def other(): ...
"""


def test_what_the_source_defines() -> None:
    assert functions_in(ast.parse(SOURCE), "plugin.py") == [
        HookFunction("mpsprobe_later", "mpsprobe_later", ("a",), ("c",), optional=True, where="plugin.py:7"),
        HookFunction("probes", "mpsprobe_probes", (), wrapper=True, where="plugin.py:10"),
        HookFunction("mpsprobe_devices", "mpsprobe_devices", ("x",), where="plugin.py:14"),
        HookFunction("mpsprobe_scanners", "mpsprobe_scanners", (), marked=False, where="plugin.py:17"),
    ]


def test_importing_and_reading_find_the_same() -> None:
    source = SOURCE.partition("class Plugin")[0] + "def mpsprobe_scanners(): ...\n"
    module = types.ModuleType("under_test")
    exec(compile(source, "under_test.py", "exec"), vars(module))
    lines = {one.where: one for one in functions_in(ast.parse(source), "")}
    imported = functions_of(module, lambda _function: "")
    assert {(one.name, one.hook, one.arguments, one.keyword_only, one.marked) for one in imported} == {
        (one.name, one.hook, one.arguments, one.keyword_only, one.marked) for one in lines.values()
    }


def test_a_property_that_raises_is_no_hook() -> None:
    class Plugin:
        @property
        def mpsprobe_devices(self) -> Any:
            raise ValueError

        @hookimpl
        def mpsprobe_probes(self) -> list[Any]:
            return []

    assert [one.name for one in functions_of(Plugin(), lambda _function: "")] == ["mpsprobe_probes"]


def test_the_known_hooks_are_all_of_this_mpsprobe() -> None:
    hooks = known_hooks()
    assert set(hooks) == {name for name in vars(hookspecs) if name.startswith(HOOK_PREFIX)}
    assert hooks["mpsprobe_before_run"].arguments == ("workload", "phase")


def test_a_deprecated_hook_is_told_with_what_replaces_it() -> None:
    specification = types.ModuleType("specification")
    marker = pluggy.HookspecMarker("mpsprobe")

    def mpsprobe_old(name: str) -> None:
        """Called never."""

    text = "since mpsprobe 0.2, gone from 0.4 on; use mpsprobe_new"
    specification.mpsprobe_old = marker(warn_on_impl=DeprecationWarning(text))(mpsprobe_old)  # type: ignore[attr-defined]
    hooks = known_hooks(specification)
    assert hooks["mpsprobe_old"] == Hook("mpsprobe_old", ("name",), text)
    function = HookFunction("mpsprobe_old", "mpsprobe_old", ("name",))
    [found] = judged([function], hooks)
    assert (found.code, found.level) == ("deprecated-hook", "warning")
    assert text in found.message
    assert callable_ones([function], hooks) == [function]


def test_what_mpsprobe_could_not_call_is_not_called() -> None:
    hooks = {"mpsprobe_x": Hook("mpsprobe_x", ("a",))}
    right = HookFunction("mpsprobe_x", "mpsprobe_x", ("a",))
    wrong = [
        HookFunction("mpsprobe_x", "mpsprobe_x", ("b",)),
        HookFunction("mpsprobe_x", "mpsprobe_x", (), ("a",)),
        HookFunction("mpsprobe_x", "mpsprobe_x", (), marked=False),
        HookFunction("mpsprobe_x", "mpsprobe_x", (), wrapper=True),
        HookFunction("mpsprobe_y", "mpsprobe_y", (), optional=True),
    ]
    assert callable_ones([right, *wrong], hooks) == [right]
    assert [one.code for one in judged(wrong, hooks)] == [
        "wrong-argument", "wrong-argument", "unmarked-hook", "hook-wrapper",
    ]  # fmt: skip


def test_a_function_that_only_looks_like_a_hook_gets_another_advice() -> None:
    hooks = {"mpsprobe_probes": Hook("mpsprobe_probes", ())}
    near, far = judged(
        [HookFunction(name, name, (), marked=False) for name in ("mpsprobe_probe", "mpsprobe_0123456789_0123456789")],
        hooks,
    )
    assert "did you mean 'mpsprobe_probes'?" in near.message
    assert (far.message, far.hint) == (
        "mpsprobe_0123456789_0123456789 is named like a hook, but is none",
        "Call it something else.",
    )
