"""The kinds of plugin that ``mpsprobe plugins new`` knows: what each one declares and needs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind, called as the registry calls it; so are its module, its test and its folder in ``templates/``.

    Attributes:
        summary: what a plugin of this kind does in general, for whoever has to choose.
        writes: what the plugin that is written does, for its description.
        declarations: what its hooks return, from ``mpsprobe.declarations``.
        dependencies: what its module imports besides mpsprobe.
        use: a command line that uses it, where ``{short}`` stands for its name.
    """

    name: str
    summary: str
    writes: str
    declarations: Sequence[str]
    use: str
    dependencies: Sequence[str] = ()


_TABLE = tomllib.loads((files("mpsprobe_devkit.scaffold") / "templates" / "kinds.toml").read_text(encoding="utf-8"))
KINDS: Mapping[str, Kind] = {name: Kind(name, **kind) for name, kind in _TABLE.items()}
