"""What the house rules look at: the files of this checkout that are tracked or about to be."""

from __future__ import annotations

import ast
import functools
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PLUGINS = sorted(path.parent for path in (ROOT / "plugins").glob("*/pyproject.toml"))


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@functools.cache
def project(folder: Path) -> dict[str, Any]:
    return tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]


@functools.cache
def files() -> list[Path]:
    """Every file that git tracks, or would: ignored ones are out."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    return sorted({path for name in listed if name and (path := ROOT / name).is_file()})


def python_files(folder: Path = ROOT) -> list[Path]:
    return [path for path in files() if path.suffix == ".py" and path.is_relative_to(folder)]


def shown(path: Path) -> str:
    """``path`` as messages name it, with ``/`` everywhere."""
    return path.relative_to(ROOT).as_posix()


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def imported(path: Path, package: str) -> Iterator[str]:
    """Every module of ``package`` that ``path`` imports, anywhere in it: in a function, for types only, by its name."""
    yield from (name for name in _all_imported(path) if name == package or name.startswith(package + "."))


@functools.cache
def _all_imported(path: Path) -> list[str]:
    names = []
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{shown(path)}:{node.lineno} imports relatively"
            base = node.module or ""
            names += [f"{base}.{alias.name}" if _is_module(base, alias.name) else base for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            names += [name.value for name in node.args[:1] if isinstance(name, ast.Constant)]
    return names


@functools.cache
def _is_module(base: str, name: str) -> bool:
    roots = [ROOT, *(plugin / "src" for plugin in PLUGINS)]
    inside = Path(*base.split("."))
    return any((root / inside / f"{name}.py").is_file() or (root / inside / name).is_dir() for root in roots)
