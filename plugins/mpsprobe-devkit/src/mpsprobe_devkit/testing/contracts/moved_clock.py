"""Another day for the modules of a plugin.

Only the plugin's own names for ``datetime`` are replaced: compiled libraries look at the memory of the real class when
they are imported, and end the process where it is another.
"""

from __future__ import annotations

import datetime
import sys
import time
from types import ModuleType
from typing import Any

DAY_S = 86_400


def move_the_clock(package: str, days: int) -> None:
    """Move the clock of this process by ``days``, for ``time`` everywhere and for ``datetime`` in ``package``.

    Args:
        package: the first part of the names of the plugin's modules, which have been imported.
        days: how far, forwards.
    """
    by = datetime.timedelta(days=days)
    _move_time(days * DAY_S)
    later, later_date = _later(by)
    whole = ModuleType("datetime", datetime.__doc__)
    whole.__dict__.update({**vars(datetime), "datetime": later, "date": later_date})
    replacements = ((datetime, whole), (datetime.datetime, later), (datetime.date, later_date))
    for name, module in list(sys.modules.items()):
        if name == package or name.startswith(package + "."):
            for attribute, value in list(vars(module).items()):
                for old, new in replacements:
                    if value is old:
                        setattr(module, attribute, new)


def _later(by: datetime.timedelta) -> tuple[type, type]:
    """``datetime.datetime`` and ``datetime.date`` whose present is later; what they return is of the usual classes."""
    real = datetime.datetime

    class Later(datetime.datetime):
        """``datetime.datetime`` on another day."""

        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Any:
            return real.now(tz) + by

        @classmethod
        def utcnow(cls) -> Any:
            return real.now(datetime.UTC).replace(tzinfo=None) + by

        @classmethod
        def today(cls) -> Any:
            return real.now() + by

    class LaterDate(datetime.date):
        """``datetime.date`` on another day."""

        @classmethod
        def today(cls) -> Any:
            return (real.now() + by).date()

    return Later, LaterDate


def _move_time(seconds: int) -> None:
    now, now_ns, local, universal = time.time, time.time_ns, time.localtime, time.gmtime
    form, text = time.strftime, time.ctime
    moved: dict[str, Any] = {
        "time": lambda: now() + seconds,
        "time_ns": lambda: now_ns() + seconds * 10**9,
        "localtime": lambda at=None: local(now() + seconds if at is None else at),
        "gmtime": lambda at=None: universal(now() + seconds if at is None else at),
        "strftime": lambda how, at=None: form(how, local(now() + seconds) if at is None else at),
        "ctime": lambda at=None: text(now() + seconds if at is None else at),
    }
    for name, function in moved.items():
        setattr(time, name, function)
