"""Prints what is not native in a report that ``mpsprobe coverage … -o report.json`` wrote."""

from __future__ import annotations

import json
import sys
from pathlib import Path

report = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
for one in report["operators"]:
    if one["verdict"] != "native":
        print(one["operator"], one["verdict"], one["calls"], "call" if one["calls"] == 1 else "calls")  # noqa: T201
