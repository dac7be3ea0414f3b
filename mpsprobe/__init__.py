"""mpsprobe: how a PyTorch model will do on Apple silicon, before you own the Mac.

The functions are what the commands of the same names do, for programs, notebooks and tests. ``hookimpl`` marks the
implementation of a hook. Everything else is imported from the module that is named like it: ``mpsprobe.declarations``,
``mpsprobe.protocols``, ``mpsprobe.errors``, ``mpsprobe.schemas``.
"""

TYPE_CHECKING = False  # type checkers take it for true; ``typing`` would cost more than all of this module
if TYPE_CHECKING:
    from mpsprobe.cli.functions import compare, load_report, profile
    from mpsprobe.hookspecs import hookimpl
    from mpsprobe.version import __version__
    from mpsprobe_coverage.callbacks.for_lightning import LightningCallback
    from mpsprobe_coverage.callbacks.for_trainer import TransformersCallback
    from mpsprobe_coverage.commands.functions import check, coverage, verify
    from mpsprobe_coverage.commands.program_functions import observe, run_script

__all__ = [
    "LightningCallback", "TransformersCallback", "__version__", "check", "compare", "coverage", "hookimpl",
    "load_report", "observe", "profile", "run_script", "verify",
]  # fmt: skip

_HOMES = {
    "LightningCallback": "mpsprobe_coverage.callbacks.for_lightning",
    "TransformersCallback": "mpsprobe_coverage.callbacks.for_trainer",
    "__version__": "mpsprobe.version",
    "check": "mpsprobe_coverage.commands.functions",
    "compare": "mpsprobe.cli.functions",
    "coverage": "mpsprobe_coverage.commands.functions",
    "hookimpl": "mpsprobe.hookspecs",
    "load_report": "mpsprobe.cli.functions",
    "observe": "mpsprobe_coverage.commands.program_functions",
    "profile": "mpsprobe.cli.functions",
    "run_script": "mpsprobe_coverage.commands.program_functions",
    "verify": "mpsprobe_coverage.commands.functions",
}


def __getattr__(name: str) -> object:
    """Import what is asked for: ``import mpsprobe`` itself imports nothing."""
    if name not in _HOMES:
        raise AttributeError(f"module 'mpsprobe' has no attribute '{name}'")
    import importlib

    package = _HOMES[name].partition(".")[0]
    try:
        module = importlib.import_module(_HOMES[name])
    except ModuleNotFoundError as error:
        if error.name not in (package, "torch"):
            raise
        from mpsprobe.errors import MissingPackage

        raise MissingPackage(f"mpsprobe.{name}", error.name.replace("_", "-")) from error
    attribute: object = getattr(module, name)
    globals()[name] = attribute
    return attribute


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
