"""Every hook is documented with its exact arguments, and the page holds no hook that is not there."""

from __future__ import annotations

import inspect
import re

import pytest

from mpsprobe import hookspecs
from mpsprobe.loading import HOOK_PREFIX
from tests.house.tree import ROOT

HOOKS = {name: hook for name, hook in vars(hookspecs).items() if name.startswith(HOOK_PREFIX)}
PAGE = (ROOT / "docs" / "plugins" / "hooks.md").read_text(encoding="utf-8")


def _sections() -> dict[str, str]:
    """The page's sections by their heading's code."""
    parts = re.split(r"^## `(.+)`$", PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_has_the_hooks_in_their_order_and_nothing_else() -> None:
    headings = [f"{name}({', '.join(inspect.signature(hook).parameters)})" for name, hook in HOOKS.items()]
    assert list(_sections()) == headings


@pytest.mark.parametrize("name", HOOKS)
def test_each_section_speaks_of_each_argument(name: str) -> None:
    [text] = [text for heading, text in _sections().items() if heading.startswith(name + "(")]
    for argument in inspect.signature(HOOKS[name]).parameters:
        assert f"`{argument}`" in text


@pytest.mark.parametrize("name", HOOKS)
def test_each_hook_says_when_it_is_called(name: str) -> None:
    documentation = inspect.getdoc(HOOKS[name]) or ""
    assert "Called" in documentation or "Findings for" in documentation


def test_the_example_of_the_page_is_a_plugin() -> None:
    [code] = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, "hooks.md", "exec"), names)
    hook = names["mpsprobe_workloads"]
    assert callable(hook)
    assert [one.name for one in hook()] == ["my-net"]
    assert hasattr(hook, "mpsprobe_impl")
