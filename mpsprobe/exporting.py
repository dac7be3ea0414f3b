"""From a report to its file, folder or terminal through an exporter. Public: plugins' commands end with ``write``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from inspect import signature
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NoReturn

from mpsprobe.errors import MpsprobeError, UsageError
from mpsprobe.output import as_bytes, check_folder, check_writable, deliver, write_folder
from mpsprobe.plugins import loading
from mpsprobe.plugins.containment import contained
from mpsprobe.plugins.registry import Registry, get_registry
from mpsprobe.suggestions import an, printable

if TYPE_CHECKING:
    from mpsprobe.schemas.report import Report

LONGEST_NAME = 60
"""Characters of a made-up file name before its extension."""


def exporter_for(registry: Registry, path: str | PurePath) -> str | None:
    """The name of the exporter that writes files like ``path``, by its extension; ``None`` for none or several."""
    file_name = PurePath(path).name.lower()
    extensions = {name: exporter.extension.lower() for name, exporter in registry.exporters().items()}
    fitting = {name: len(end) for name, end in extensions.items() if end and file_name.endswith(end)}
    names = [name for name, length in fitting.items() if length == max(fitting.values())]
    return names[0] if len(names) == 1 else None


def choose(registry: Registry, format_name: str | None, output: str | None, kind: str | None = None) -> str:
    """The exporter for ``--format`` and ``-o``, asked before the long work.

    Without ``--format`` the extension of the file decides; a file without one gets ``json``, all else ``table``.

    Args:
        kind: of the report that will be written, where that is known.

    Raises:
        UsageError: no exporter writes files with that extension, or it does not write such reports.
        OutputError: the file cannot be written.
        MpsprobeError: there is no such exporter.
    """
    path = None if output == "-" else output
    name = format_name or (exporter_for(registry, path) if path is not None else None)
    if name is None and path is not None and (extension := PurePath(path).suffix):
        exporters = [exporter for exporter in registry.exporters().values() if kind in (None, *exporter.kinds)]
        known = ", ".join(sorted({exporter.extension for exporter in exporters} - {""}))
        hint = f"Use {known}, or name the format: --format NAME." if known else registry.hint("exporter")
        raise UsageError(f"no format has the extension '{printable(extension)}'", hint)
    name = name or ("table" if path is None else "json")
    check_target(registry, name, path, kind)
    return name


def check_target(registry: Registry, name: str, path: str | None, kind: str | None = None) -> None:
    """Find out before the long work whether the exporter called ``name`` is there and could write to ``path``.

    Raises:
        OutputError: nothing can be written there.
        UsageError: the exporter does not read reports of that kind, or writes a folder, and none is named.
        MpsprobeError: there is no such exporter, or it cannot be imported.
    """
    registry.exporter(name)
    if kind is not None:
        _check_kind(registry, name, kind)
    if registry.exporter_declaration(name).folder:
        check_folder(_named(name, path))
    elif path is not None:
        check_writable(path)


def write(registry: Registry, name: str, report: Report, output: str | None, everything: bool = False) -> str | None:
    """Write ``report`` with the exporter called ``name`` to ``output``; standard output for ``None`` and ``-``.

    ``everything`` is ``--all``: a terminal shows what nobody needs to act, too.

    Returns where it went: the file, or the folder that a folder exporter made; ``None`` for standard output.

    Raises:
        UsageError: the exporter does not read reports of that kind, or there is no such exporter.
        PluginError: it failed, or could not be imported.
        OutputError: it cannot be written.
    """
    path = None if output == "-" else output
    exporter = registry.exporter(name)
    _check_kind(registry, name, report.kind)
    if registry.exporter_declaration(name).folder:
        return str(write_folder(_named(name, path), _files(registry, name, exporter, report)))
    stream = getattr(exporter, "stream", None)
    if path is None and hasattr(exporter, "render_for_terminal"):
        deliver(on_terminal(registry, name, report, everything), None)
    elif stream is not None:
        deliver(_guarded(registry, name, lambda: map(as_bytes, stream(report))), path)
    else:
        deliver(render(registry, name, report), path)
    return path


def on_terminal(registry: Registry, name: str, report: Report, everything: bool = False) -> str | bytes:
    """What ``write`` writes to standard output by an exporter that draws for a terminal. Raises as ``write``."""
    draw = registry.exporter(name).render_for_terminal
    whole = {"everything": True} if everything and "everything" in signature(draw).parameters else {}
    return _whole(registry, name, lambda: draw(report, **whole))


def render(registry: Registry, name: str, report: Report) -> str | bytes:
    """``report`` as the exporter called ``name`` writes it to a file. Raises as ``write``."""
    exporter = registry.exporter(name)
    if registry.exporter_declaration(name).folder:
        raise UsageError(f"the exporter '{name}' writes a folder")

    with contained():  # what it prints does not get into the output
        return _whole(registry, name, lambda: exporter.render(report))


def exported(report: Report, name: str) -> str | bytes:
    """``report`` as the exporter called ``name`` writes it to a file: ``report.to(name)``. Raises as ``write``."""
    registry = get_registry()
    _check_kind(registry, name, report.kind)
    return render(registry, name, report)


def saved(report: Report, path: str | PurePath, name: str | None = None) -> str:
    """Write ``report`` to ``path``, which says how if ``name`` does not: ``report.save(path)``. Raises as ``write``."""
    registry = get_registry()
    return write(registry, choose(registry, name, str(path), report.kind), report, str(path)) or str(path)


def shown(report: Report, name: str, method: str) -> str | None:
    """What the exporter called ``name`` draws by its ``method``; ``None`` where it is not there, or cannot."""
    registry = get_registry()
    try:
        _check_kind(registry, name, report.kind)
        draw = getattr(registry.exporter(name), method, None)
        return None if draw is None else str(_whole(registry, name, lambda: draw(report)))
    except MpsprobeError:
        return None


def default_path(registry: Registry, name: str, stem: str) -> str:
    """Where ``--export NAME`` without a path writes: ``stem`` and the exporter's extension, in the current folder."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-.")[:LONGEST_NAME].rstrip("-.") or "report"
    declaration = registry.exporter_declaration(name)
    return f"{safe}-{name}" if declaration.folder else f"{safe}{declaration.extension}"


def further(registry: Registry, text: str, stem: str, kind: str) -> tuple[str, str]:
    """Exporter and path of ``--export NAME[=PATH]``, asked before the long work. Raises as ``check_target``."""
    name, _, path = text.partition("=")
    registry.exporter_declaration(name)
    path = path or default_path(registry, name, stem)
    check_target(registry, name, path, kind)
    return name, path


def _check_kind(registry: Registry, name: str, kind: str) -> None:
    kinds = registry.exporter_declaration(name).kinds
    if kind not in kinds:
        able = ", ".join(other for other, exporter in registry.exporters().items() if kind in exporter.kinds)
        problem = f"the exporter '{name}' reads {', '.join(kinds)}; this report is a '{printable(kind)}'"
        raise UsageError(problem, f"Formats for it: {able}." if able else None)


def _named(name: str, path: str | None) -> Path:
    if path is None:
        raise UsageError(f"the exporter '{name}' writes a folder", "Name it: -o FOLDER, or --export NAME=FOLDER.")
    return Path(path)


def _whole(registry: Registry, name: str, make: Callable[[], Any]) -> str | bytes:
    content: object = next(_guarded(registry, name, lambda: [make()]))
    if not isinstance(content, (str, bytes)):
        _blame(registry, name, f"rendered {an(type(content).__name__)}, neither text nor bytes", None)
    return content


def _guarded(registry: Registry, name: str, make: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """What ``make`` gives; an exception of the plugin's code becomes an error that names the plugin."""
    try:
        yield from make()
    except (MpsprobeError, OSError):
        raise
    except Exception as error:  # noqa: BLE001 - the plugin's code, named in the message
        _blame(registry, name, f"failed: {loading.describe(error)}", error)


def _files(registry: Registry, name: str, exporter: Any, report: Report) -> Iterator[tuple[str, Iterator[bytes]]]:
    for path, content in _guarded(registry, name, lambda: exporter.files(report)):
        yield path, _guarded(registry, name, partial(map, as_bytes, content))


def _blame(registry: Registry, name: str, problem: str, cause: Exception | None) -> NoReturn:
    owner = registry.owner("exporter", name)
    assert owner is not None  # whoever made the exporter
    loading.refuse(f"the exporter '{name}'", owner, problem, cause)
