"""The tree of errors: what each one says."""

from __future__ import annotations

import inspect

from mpsprobe import errors


def _all_errors() -> list[type[errors.MpsprobeError]]:
    classes = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, Exception)]
    return [one for one in classes if one.__module__ == errors.__name__]


def test_every_error_is_in_the_tree_of_the_docstring_with_its_exit_code() -> None:
    found = _all_errors()
    assert len(found) == 11
    for one in found:
        assert issubclass(one, errors.MpsprobeError)
        assert one.exit_code == (1 if one is errors.CheckFailed else 2)
        assert one.__name__ in (errors.__doc__ or "")


def test_an_unknown_name_carries_the_nearest_ones() -> None:
    error = errors.UnknownName("workload", "bert-bas", ["bert-base", "gpt2"], "List them.")
    assert error.message == "unknown workload 'bert-bas'; did you mean 'bert-base'?"
    assert error.nearest == ["bert-base"]
    assert str(error) == f"{error.message}\nList them."


def test_an_unknown_name_cannot_draw_on_the_terminal() -> None:
    assert "\x1b" not in errors.UnknownName("operator", "\x1b[2J\n", []).message


def test_a_missing_package_says_what_to_install() -> None:
    error = errors.MissingPackage("the command 'coverage'", "mpsprobe-coverage")
    assert "the command 'coverage' needs the package mpsprobe-coverage" in error.message
    assert error.hint == 'Install it: pip install "mpsprobe[all]"'
    assert errors.MissingPackage("it", "torch>=2.6").hint == 'Install it: pip install "mpsprobe[all]"'
    assert errors.MissingPackage("it", "timm>=1.0").hint == 'Install it: pip install "timm>=1.0"'
