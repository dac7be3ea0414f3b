"""mpsprobe: how a PyTorch model will do on Apple silicon, before you own the Mac.

The public names, for plugins too. ``hookimpl`` marks a hook implementation; everything else is
imported from the module that is named like it: ``mpsprobe.declarations``, ``mpsprobe.protocols``,
``mpsprobe.errors``, ``mpsprobe.schemas``.
"""

from mpsprobe.hookspecs import hookimpl

__version__ = "0.1.0"

__all__ = ["__version__", "hookimpl"]
