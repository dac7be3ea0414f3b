"""Makes plugins in a folder: a module and the metadata that makes it an installed distribution."""

from __future__ import annotations

import textwrap
from pathlib import Path


def install_plugin(
    folder: Path,
    name: str,
    code: str,
    *,
    version: str = "1.0",
    entry_points: str | None = None,
    modules: dict[str, str] | None = None,
) -> str:
    """Write a distribution with one entry point to ``folder``, found by whoever has it on ``sys.path``.

    Args:
        name: of the distribution and of the entry point; its module is ``NAME_plugin`` with ``_`` for ``-``.
        code: the thin module, indented as suits the test.
        entry_points: the text of ``entry_points.txt`` instead of the usual one.
        modules: more modules, by file name.

    Returns:
        The name of the thin module.
    """
    module = name.replace("-", "_") + "_plugin"
    (folder / f"{module}.py").write_text(textwrap.dedent(code), encoding="utf-8")
    for file_name, text in (modules or {}).items():
        (folder / file_name).write_text(textwrap.dedent(text), encoding="utf-8")
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", encoding="utf-8")
    wanted = f"[mpsprobe]\n{name} = {module}\n" if entry_points is None else entry_points
    (metadata / "entry_points.txt").write_text(wanted, encoding="utf-8")
    return module
