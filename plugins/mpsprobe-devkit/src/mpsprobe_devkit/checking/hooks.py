"""Hook functions of a plugin, found by importing it or by reading it, compared with the existing hooks."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mpsprobe.plugins.loading import HOOK_PREFIX, new_manager
from mpsprobe.suggestions import nearest
from mpsprobe_devkit.checking.findings import Finding, finding


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook of mpsprobe: its arguments, and what replaces it if it is deprecated."""

    name: str
    arguments: tuple[str, ...]
    deprecated: str | None = None


@dataclass(frozen=True, slots=True)
class HookFunction:
    """A function of a plugin that is a hook, or looks like one.

    Attributes:
        name: of the function.
        hook: the one that it implements: its own name, or the marker's ``specname``.
        arguments: those without a default, which mpsprobe has to pass.
        keyword_only: those without a default that cannot be passed by position.
        marked: it has ``@hookimpl``.
        wrapper: it is marked as one.
        optional: it is marked ``optionalhook=True``.
        where: ``file:line``.
    """

    name: str
    hook: str
    arguments: tuple[str, ...]
    keyword_only: tuple[str, ...] = ()
    marked: bool = True
    wrapper: bool = False
    optional: bool = False
    where: str = ""


def known_hooks(*specifications: ModuleType) -> dict[str, Hook]:
    """The hooks of this mpsprobe, by name, and those of ``specifications``."""
    manager = new_manager()
    for one in specifications:
        manager.add_hookspecs(one)
    found = {}
    for name in dir(manager.hook):
        specification = getattr(getattr(manager.hook, name), "spec", None)
        if specification is not None:
            warning = specification.warn_on_impl
            found[name] = Hook(name, tuple(specification.argnames), str(warning) if warning else None)
    return found


def judged(functions: Iterable[HookFunction], hooks: Mapping[str, Hook]) -> Iterator[Finding]:
    """Everything that is wrong with how ``functions`` are declared; they are not called."""
    functions = list(functions)
    for one in functions:
        if not one.marked:
            yield _unmarked(one, hooks)
            continue
        if one.wrapper:
            yield finding("hook-wrapper", f"{one.name} is marked as a wrapper", one.where)
        hook = hooks.get(one.hook)
        if hook is None:
            if not one.optional:
                yield finding("unknown-hook", f"there is no hook '{one.hook}'{_near(one.hook, hooks)}", one.where)
            continue
        if hook.deprecated:
            yield finding("deprecated-hook", f"{hook.name} is deprecated: {hook.deprecated}", one.where)
        yield from _arguments(one, hook)
    if not functions:
        yield finding("no-hooks", "it implements no hook", "")


def callable_ones(functions: Iterable[HookFunction], hooks: Mapping[str, Hook]) -> list[HookFunction]:
    """Those that mpsprobe could call."""
    return [
        one
        for one in functions
        if one.marked and one.hook in hooks and not one.wrapper and not list(_arguments(one, hooks[one.hook]))
    ]


def _unmarked(one: HookFunction, hooks: Mapping[str, Hook]) -> Finding:
    if one.hook in hooks:
        return finding("unmarked-hook", f"{one.name} has no @mpsprobe.hookimpl, so it would never be called", one.where)
    near = _near(one.hook, hooks)
    message = f"{one.name} is named like a hook, but is none{near}"
    return finding("unmarked-hook", message, one.where, "Call it something else" + (", or mark it." if near else "."))


def _arguments(one: HookFunction, hook: Hook) -> Iterator[Finding]:
    there = f"It has {', '.join(hook.arguments)}." if hook.arguments else "It has none."
    for argument in one.arguments:
        if argument not in hook.arguments:
            message = f"{hook.name} has no argument '{argument}'{_near(argument, hook.arguments)}"
            yield finding("wrong-argument", message, one.where, there)
    for argument in one.keyword_only:
        message = f"{one.name} takes '{argument}' by keyword only, and mpsprobe passes arguments by position"
        yield finding("wrong-argument", message, one.where, "Remove the '*' from its arguments.")


def _near(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known, count=1)
    return f"; did you mean '{near[0]}'?" if near else ""


# -- of an imported plugin -------------------------------------------------------------------------


def functions_of(plugin: object, where: Any) -> list[HookFunction]:
    """The hook functions of an imported module or object; ``where`` tells a function's place."""
    manager = new_manager()
    found = []
    for name in dir(plugin):
        try:
            options = manager.parse_hookimpl_opts(plugin, name)
            value = getattr(plugin, name)
        except Exception:  # noqa: BLE001 - a property that raises is not a hook
            continue
        own = inspect.isfunction(value) and value.__module__ == getattr(plugin, "__name__", None)
        if options is None and not (own and name.startswith(HOOK_PREFIX)):
            continue
        arguments, keyword_only = _needed(value)
        found.append(
            HookFunction(
                name,
                (options.get("specname") if options else None) or name,
                arguments,
                keyword_only,
                marked=options is not None,
                wrapper=bool(options and (options["wrapper"] or options["hookwrapper"])),
                optional=bool(options and options["optionalhook"]),
                where=where(value),
            )
        )
    return found


def _needed(function: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The arguments without default: those by position, and those by keyword only."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (), ()
    needed = [one for one in parameters if one.default is one.empty]
    positional = [one.name for one in needed if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return tuple(positional), tuple(one.name for one in needed if one.kind is one.KEYWORD_ONLY)


# -- of a plugin that cannot be imported -----------------------------------------------------------


def functions_in(tree: ast.Module, shown: str) -> list[HookFunction]:
    """The hook functions that the source of a thin module defines, at its top or in its classes."""
    found = []
    for node, in_class in _definitions(tree.body):
        marker = next((mark for one in node.decorator_list if (mark := _marker(one)) is not None), None)
        if marker is None and (in_class or not node.name.startswith(HOOK_PREFIX)):
            continue
        options = marker or {}
        positional = [*node.args.posonlyargs, *node.args.args]
        needed = [one.arg for one in positional[: len(positional) - len(node.args.defaults)]]
        by_keyword = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        found.append(
            HookFunction(
                node.name,
                str(options.get("specname") or node.name),
                tuple(needed[1:] if in_class else needed),
                tuple(one.arg for one, default in by_keyword if default is None),
                marked=marker is not None,
                wrapper=bool(options.get("wrapper") or options.get("hookwrapper")),
                optional=bool(options.get("optionalhook")),
                where=f"{shown}:{node.lineno}",
            )
        )
    return found


def _definitions(
    body: Sequence[ast.stmt], *, in_class: bool = False
) -> Iterator[tuple[ast.FunctionDef | ast.AsyncFunctionDef, bool]]:
    for node in body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node, in_class
        elif isinstance(node, ast.ClassDef):
            yield from _definitions(node.body, in_class=True)
        elif isinstance(node, (ast.If, ast.Try, ast.With)):
            yield from _definitions(node.body, in_class=in_class)


def _marker(decorator: ast.expr) -> dict[str, Any] | None:
    """The options of ``@hookimpl`` or ``@mpsprobe.hookimpl(…)``; ``None`` for another decorator."""
    called = decorator.func if isinstance(decorator, ast.Call) else decorator
    if ast.unparse(called).rsplit(".", 1)[-1] != "hookimpl":
        return None
    keywords = decorator.keywords if isinstance(decorator, ast.Call) else []
    return {
        keyword.arg: keyword.value.value
        for keyword in keywords
        if keyword.arg is not None and isinstance(keyword.value, ast.Constant)
    }
