"""Fails every test that does not leave its process as it found it, so that tests pass in any order and in any company.

A plugin of pytest, which the ``conftest.py`` at the root loads. What is looked at: the state that contracts of plugins
look at too (variables, working folder, signal handlers, torch's defaults and modes, …), ``sys.modules``, and what other
libraries remember. A module that is imported for the first time may stay.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from mpsprobe_devkit.process_state import VARIABLE, changed, process_state, put_back

State = dict[str, Any]
BEFORE = pytest.StashKey[Mapping[str, Any]]()
FAKED = pytest.StashKey[list[str]]()
FOR_GOOD = ("PYTEST_CURRENT_TEST", "TORCHINDUCTOR_CACHE_DIR", "KINETO_LOG_LEVEL")
"""Of pytest, which changes it in each phase, of a part of torch when it is imported, and of the first profile."""
USERS_FILE = "mpsprobe_user_"
"""What the module of a ``file.py:function`` is called, which stays until there is another one."""
ANSWERS_WHETHER = re.compile(r"(is|has)_|.*available")
_ABSENT = object()


@pytest.fixture(autouse=True)
def _left_as_found(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Around each test and its fixtures."""
    before, modules = _state(), dict(sys.modules)
    request.node.stash[BEFORE] = modules
    yield
    del request.node.stash[BEFORE]  # items live as long as pytest
    wrong = _not_as(before, modules, tmp_path_factory.getbasetemp())
    if faked := request.node.stash.get(FAKED, []):
        new = sorted(n for n in sys.modules.keys() - modules.keys() if _is_of_another_library(sys.modules[n]))
        if new:  # what they saw of it stays with them
            wrong.append(f"{len(new)} modules ({', '.join(new[:3])}, …) imported while {', '.join(faked)} was made up")
    if "monkeypatch" in request.fixturenames:
        wrong += _remembered()
    assert not wrong, "The test does not leave as it was: " + "; ".join(wrong)


@pytest.fixture(autouse=True, scope="module")
def _file_left_as_found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Around the tests of a file and the fixtures that they share."""
    before, modules = _state(), dict(sys.modules)
    yield
    wrong = _not_as(before, modules, tmp_path_factory.getbasetemp())
    assert not wrong, "Fixtures of this file do not leave as it was: " + "; ".join(wrong)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Note what stands in ``sys.modules`` in place of the real ones, before fixtures put those back."""
    before = item.stash.get(BEFORE, None)
    if before is not None and before != sys.modules:
        item.stash[FAKED] = _replaced(before) + _made_up(before)


def _state() -> State:
    state = process_state(random_numbers=False)
    for name in FOR_GOOD:
        state.pop(VARIABLE + name, None)
    del state["the warnings filter"]  # pytest puts it back after each test
    state["sys.path"] = [one for one in state["sys.path"] if not one.endswith("_vendor")]  # setuptools brings its own
    enabled, threshold, callbacks = state["garbage collection"]
    foreign = [one for one in callbacks if not one.__module__.startswith("hypothesis.")]  # with its first example
    state["garbage collection"] = enabled, threshold, foreign
    return state


def _not_as(before: State, modules: Mapping[str, Any], temporary: Path) -> list[str]:
    """What is no longer as it was, in words; it is put back, so that the tests that follow can pass."""
    after = _state()
    names = changed(before, after)
    wrong = [f"{name} ({_difference(before.get(name), after.get(name))})" for name in names]
    put_back(before, names)
    if modules == sys.modules:
        return wrong
    replaced = _replaced(modules)
    strange = _made_up(modules) + [
        name
        for name in sys.modules.keys() - modules.keys()
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(temporary))
        and not name.startswith(USERS_FILE)
    ]
    for name in strange:
        sys.modules.pop(name, None)
    sys.modules.update({name: modules[name] for name in replaced})
    return wrong + [f"sys.modules['{name}']" for name in sorted({*replaced, *strange})]


def _difference(before: Any, after: Any) -> str:
    if isinstance(before, list):
        gone = [f"without {one}" for one in before if one not in after]
        return ", ".join(gone + [str(one) for one in after if one not in before])
    return f"{before} before, {after} after"


def _replaced(before: Mapping[str, Any]) -> list[str]:
    """What was imported before and is something else now, or gone; transformers replaces itself with the same."""

    def same(name: str) -> bool:
        now, module = sys.modules.get(name, _ABSENT), before.get(name)
        return now is module or (_is_of_another_library(now) and now.__file__ == getattr(module, "__file__", None))

    return [
        name
        for name in before
        if not (same(name) or name.startswith(USERS_FILE))
        and not (_is_an_alias(sys.modules.get(name)) and same(name.partition(".")[0]))
    ]


def _is_an_alias(module: Any) -> bool:
    return getattr(module, "__file__", "") is None and getattr(module, "__spec__", None) is None


def _made_up(before: Mapping[str, Any]) -> list[str]:
    """What no import has put there: ``None``, and modules of no loader that stand for themselves."""
    return [
        name
        for name in sys.modules.keys() - before.keys() - {"__mp_main__"}  # multiprocessing's own name for __main__
        if sys.modules[name] is None
        or ("." not in name and _is_without_loader(sys.modules[name]) and "cython" not in name)
    ]


def _is_without_loader(module: Any) -> bool:
    return getattr(getattr(module, "__spec__", None), "loader", None) is None and not hasattr(module, "__file__")


def _is_of_another_library(module: Any) -> bool:
    return "site-packages" in str(getattr(module, "__file__", None))


_scanned: set[str] = set()
_answers: dict[Any, Any] = {}
"""Functions of other libraries that keep whether something is there, and what they were last found to answer."""


def _remembered() -> list[str]:
    """Answers that another library keeps and would not give now: a test faked something when it was asked first."""
    wrong = []
    for function in _caches():
        if not function.cache_info().currsize or (kept := function()) is _answers[function]:
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _answers[function] = function.__wrapped__()
        except Exception:  # noqa: BLE001 - whatever it asks
            _answers[function] = kept
        if isinstance(kept, bool) and kept != _answers[function]:
            wrong.append(f"{function.__module__}.{function.__name__}(), which remembers {kept}")
            function.cache_clear()
    return wrong


def _caches() -> list[Any]:
    """The functions with a cache in modules of other libraries, with those that were imported since the last call."""
    for name in sys.modules.keys() - _scanned:
        _scanned.add(name)
        if _is_of_another_library(module := sys.modules[name]):
            for value in list(vars(module).values()):
                if type(value) is functools._lru_cache_wrapper and value.__module__ == name and _can_be_asked(value):
                    _answers[value] = _ABSENT
    return list(_answers)


def _can_be_asked(function: Callable[..., Any]) -> bool:
    parameters = inspect.signature(function).parameters.values()
    positional = [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return bool(ANSWERS_WHETHER.match(function.__name__)) and all(one.default is not one.empty for one in positional)
