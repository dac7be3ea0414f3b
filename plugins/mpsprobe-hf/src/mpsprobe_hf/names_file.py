"""``path/to/names.toml:NAME``: a model or a pipeline that a user describes in a file, as the catalog does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from mpsprobe.errors import UnknownName, UsageError, WorkloadError
from mpsprobe.suggestions import printable
from mpsprobe_hf.catalog import shared
from mpsprobe_hf.catalog.entry import Entry
from mpsprobe_hf.catalog.reading import Names
from mpsprobe_hf.forms import Table
from mpsprobe_hf.installed import check_installed
from mpsprobe_hf.transformers.names import split_file

if TYPE_CHECKING:
    from mpsprobe.protocols import Workload


def in_file(name: str) -> Workload:
    """The workload ``path/to/names.toml:NAME``; ``NAME`` goes without if it is the only one."""
    path, wanted = split_file(name) or (name, "")
    shown = printable(path)
    try:
        text = Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, RuntimeError, ValueError) as error:
        raise WorkloadError(f"cannot read '{shown}': {printable(str(error))}") from None
    names = Names(text, shown, shared())
    check(names)
    known = names.entries()
    if not wanted and len(known) != 1:
        near = " or ".join(f"{shown}:{printable(name)}" for name in list(known)[:3])
        raise UsageError(f"'{shown}' has {len(known)} names", f"Say which one: {near}" if near else None)
    wanted = wanted or next(iter(known))
    if wanted not in known:
        raise UnknownName("workload", wanted, known, f"The names of {shown} are: {', '.join(known)}.")
    entry = known[wanted]
    if isinstance(entry, Entry):
        from mpsprobe_hf.transformers.workload import NamedWorkload

        return NamedWorkload(entry, name)
    from mpsprobe_hf.diffusers.recipe import published
    from mpsprobe_hf.diffusers.workload import PipelineWorkload

    return PipelineWorkload(name, published(entry))


def check(names: Names) -> None:
    """That the installed libraries have each model type, class and key, which are read, and each loss and call is one.

    Raises WorkloadError: it has not; the message has the file and the line.
    """
    from mpsprobe_hf.calls import CALLS
    from mpsprobe_hf.losses import LOSSES
    from mpsprobe_hf.transformers.inputs.measures import COMPUTED
    from mpsprobe_hf.transformers.inputs.rules import MEASURES

    for name, entry in names.entries().items():
        if not isinstance(entry, Entry):
            from mpsprobe_hf.diffusers.classes import LIBRARIES, pipeline_names

            check_installed("a pipeline in a file of names", LIBRARIES)
            names.check(name, "pipeline", [entry.pipeline], pipeline_names())
            continue
        check_installed("a file of names", ("transformers",))
        models = Path(str(getattr(find_spec("transformers"), "origin", ""))).parent / "models"
        names.check(
            name,
            "model type",
            [entry.model_type],
            sorted(folder.name for folder in models.iterdir() if folder.is_dir()),
        )
        classes = re.findall(r"^class (\w+)", _source(models / entry.model_type, "modeling"), re.M)
        check_config(names, name, entry, models)
        for architecture in map(entry.architecture, entry.phases):
            names.check(name, "class", [architecture.model_class], classes)
            names.check(name, "loss", [architecture.loss], ("", *LOSSES))
            names.check(name, "call", [architecture.call], ("", *CALLS))
            names.check(name, "measure", architecture.own.measures, (*MEASURES, *COMPUTED))
            for form in architecture.own.arguments.values():
                words = [word for size in (*form.shape, form.high) for word in str(size).split("*")]
                sizes = (word for word in words if not word.isdigit())
                names.check(name, "size of an input", sizes, ("batch", "seq", *MEASURES, *COMPUTED))


def check_config(names: Names, name: str, entry: Entry, models: Path) -> None:
    """That the code of the model type, or of those inside it, has a word for each key: transformers takes any."""
    configuration = _source(models / entry.model_type, "configuration")
    types = {entry.model_type, *re.findall(r'(?:from \.\.|")(\w+)', configuration)}
    types |= {str(value) for key, value in _items(entry.config) if key == "model_type"}
    parts = [folder for folder in models.iterdir() if any(f"{kind}_".startswith(f"{folder.name}_") for kind in types)]
    described = "".join(_source(part, "configuration") for part in parts)
    code = described + "".join(_source(part, "modeling") for part in parts)
    code += "".join(_source(models.parent, what) for what in ("configuration", "modeling_rope", "backbone"))
    words = set(re.findall(r"\w+", code))
    unknown = [key for key, _ in _items(entry.config) if key not in words]
    names.check(name, "key of config", unknown, dict.fromkeys(re.findall(r"^    ([a-z]\w*): \w", described, re.M)))


def _items(config: Table) -> Iterator[tuple[str, object]]:
    """Keys and values, of configurations inside too."""
    for key, value in config.items():
        yield key, value
        if isinstance(value, dict):
            yield from _items(value)


def _source(folder: Path, what: str) -> str:
    return "".join(file.read_text(encoding="utf-8") for file in sorted(folder.glob(f"{what}_*.py")))
