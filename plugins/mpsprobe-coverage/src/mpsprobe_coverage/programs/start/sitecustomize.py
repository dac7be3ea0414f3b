"""Imported by Python before the program that ``mpsprobe run`` starts, and before the Python processes that it starts.

The program itself is then run by Python as ever: its exit code, tracebacks, ``__main__``, ``sys.argv``, ``sys.path``
and flags are its own, as nothing of ours runs around it. Other interpreters may meet this file through ``PYTHONPATH``;
the settings are not for them.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys


def _own_sitecustomize() -> None:
    """The ``sitecustomize`` of this environment, which this file stands before."""
    here = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120 - pathlib takes a while to import
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != here]  # noqa: PTH100
    this = sys.modules.pop(__name__)
    try:
        importlib.import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        sys.modules.setdefault(__name__, this)


def _begin() -> None:
    value = os.environ.get("MPSPROBE_PROGRAM")
    if value is None or json.loads(value)["prefix"] != sys.prefix:
        return
    # Ctrl-C ends a program that has not begun, and says nothing of where that was.
    handled = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if handled:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from mpsprobe_coverage.programs.process import begin

    begin(value)
    if handled:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if __name__ == "sitecustomize":
    try:
        _own_sitecustomize()
    finally:
        _begin()
