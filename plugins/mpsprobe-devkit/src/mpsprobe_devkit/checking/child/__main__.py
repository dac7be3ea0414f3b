"""Starts the part of the check that the request names."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

from mpsprobe_devkit.checking.child.telling import Teller

MODES = {"plugin", "time", "taken_names", "targets"}


def main(folder: str) -> None:
    """Do what ``request.json`` in ``folder`` asks for."""
    request = json.loads((Path(folder) / "request.json").read_text(encoding="utf-8"))
    mode = request["mode"]
    if mode not in MODES:
        raise ValueError(mode)
    part = importlib.import_module(f"mpsprobe_devkit.checking.child.{mode}")
    sys.dont_write_bytecode = True  # a check leaves no trace in the folder that it looks at
    sys.path[:] = request["path"]
    teller = Teller(Path(folder), request)
    part.run(request, teller)
    teller.tell(done=True)
    os._exit(0)  # whatever threads the plugin has left, and whatever it wanted to do at the end


if __name__ == "__main__":
    main(sys.argv[1])
