"""A command line that click refuses, in two lines as all errors have: what is wrong with it, and what to do."""

from __future__ import annotations

import click

from mpsprobe.cli.group import main_group
from mpsprobe.errors import MpsprobeError, UnknownName, UsageError
from mpsprobe.suggestions import nearest


def in_words(error: click.ClickException) -> MpsprobeError:
    """``error`` with the nearest option, what the option takes, or how the command is written."""
    context: click.Context | None = getattr(error, "ctx", None)
    if context is None:  # of an option whose value is not there, or that takes none
        return UsageError(_sentence(error.format_message()), "--help after the command says how it is called.")
    if isinstance(error, click.NoSuchOption):
        if error.option_name in (name for option in main_group.params for name in option.opts):
            hint = f"It stands before the command: mpsprobe {error.option_name} …"
            return UsageError(f"'{context.command_path}' has no option '{error.option_name}'", hint)
        options = [one for one in context.command.get_params(context) if isinstance(one, click.Option)]
        known = [name for option in options for name in (*option.opts, *option.secondary_opts)]
        listing = max((name for name in known if name.startswith("--help")), key=len)
        bare = {name.lstrip("-"): name for name in known}  # dashes are near to dashes
        near = [bare[name] for name in nearest(error.option_name.lstrip("-"), bare)]
        return UnknownName("option", error.option_name, near, f"{context.command_path} {listing} shows them all.")
    option = getattr(error, "param", None)
    if not isinstance(option, click.Option):
        return UsageError(_sentence(error.format_message()), " ".join(context.get_usage().split()))
    missing = isinstance(error, click.MissingParameter)
    problem = error.format_message() if missing else f"{option.opts[0]}: {_sentence(error.message)}"
    return UsageError(_sentence(problem), ": ".join(option.get_help_record(context) or option.opts))


def _sentence(text: str) -> str:
    """``text`` as our messages begin and end."""
    return (text[:1].lower() + text[1:]).removesuffix(".")
