"""Values of command-line options, with errors that name the nearest right value. Public: plugins' commands use them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.flags import flag_name

if TYPE_CHECKING:
    from mpsprobe.protocols import RunOptions

LARGEST = 2**31 - 1
"""The largest whole number that an option takes."""
MOST_PERCENT = 1000.0
"""The largest percentage that an option takes."""


class Named(click.ParamType):
    """One of a few names."""

    def __init__(self, kind: str, names: Sequence[str]) -> None:
        self.name = kind
        self._names = tuple(names)

    def get_metavar(self, *_args: Any, **_kwargs: Any) -> str:
        """The names, with ``|`` between them: what the help shows."""
        return "|".join(self._names)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """``value``, if it is one of the names.

        Raises:
            UnknownName: it is none; the message has the nearest.
        """
        if value not in self._names:
            raise UnknownName(self.name, str(value), self._names, "There are: " + ", ".join(self._names) + ".")
        return str(value)


class Positive(click.ParamType):
    """A whole number from 1, or from another ``lowest``."""

    name = "N"

    def __init__(self, lowest: int = 1) -> None:
        self._lowest = lowest

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """``value`` as a number.

        Raises:
            UsageError: it is not a whole number, or too small or too large.
        """
        try:
            number = int(str(value))
        except ValueError:
            number = self._lowest - 1
        if not self._lowest <= number <= LARGEST:
            most = f" to {LARGEST}" if number > LARGEST else ""
            raise UsageError(f"{_flag(param)} takes a whole number from {self._lowest}{most}, not '{str(value)[:40]}'")
        return number


class Names(click.ParamType):
    """Names with commas between them; each once, in the order given."""

    name = "NAME,…"
    _of = "name"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        """What stands between the commas; a default is a list already.

        Raises:
            UsageError: nothing does, or one of them is wrong.
        """
        parts = value if isinstance(value, (tuple, list)) else str(value).split(",")
        values = tuple(dict.fromkeys(self._value(text, param) for part in parts if (text := str(part).strip())))
        if not values:
            raise UsageError(f"{_flag(param)} needs a {self._of}")
        return values

    def _value(self, text: str, param: click.Parameter | None) -> Any:
        return text


class Several(Names):
    """Whole numbers from 1, with commas between them; each once, in the order given."""

    name = "N,…"
    _of = "number"

    def _value(self, text: str, param: click.Parameter | None) -> int:
        return Positive().convert(text, param, None)


class Percent(click.ParamType):
    """A percentage from 0, with or without its sign, as a share of 1."""

    name = "PERCENT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """``value`` as a share of 1: 0.05 for ``5`` and ``5%``.

        Raises:
            UsageError: it is not a number, negative or too large.
        """
        try:
            number = float(str(value).strip().removesuffix("%"))
        except ValueError:
            number = -1.0
        if not 0 <= number <= MOST_PERCENT:
            raise UsageError(f"{_flag(param)} takes a percentage from 0 on, not '{str(value)[:40]}'")
        return number / 100


SAY_SO = "Say so, or leave it out."
"""What to do about an option that another one has to go with."""


def check_training(options: RunOptions, trains: bool) -> None:
    """Refuse options of training where nothing is trained.

    Raises:
        UsageError: they say how a training step goes, and ``trains`` is False.
    """
    given = {"--grad-accum": options.grad_accum != 1, "--lora": options.lora}
    for flag in given if not trains else ():
        if given[flag]:
            raise UsageError(f"{flag} makes sense with --phase training only", SAY_SO)
    if options.lora_rank != type(options)().lora_rank and not options.lora:
        raise UsageError("--lora-rank makes sense with --lora only", SAY_SO)


def converted(command: click.Command, given: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of a function as ``command`` has them: checked as its flags are, by its parameters' names.

    Args:
        given: by names that are the flags' (``batch_size`` for ``--batch-size``); ``None``: not given.

    Raises:
        UsageError: there is no such flag, or it does not take the value.
    """
    flags = {flag_name(option): option for option in command.params if isinstance(option, click.Option)}
    values: dict[str, Any] = {}
    for name, value in given.items():
        if name not in flags:
            raise UnknownName("option", name, flags)
        if value is not None:
            option = flags[name]
            try:
                values[str(option.name)] = option.type.convert(value, option, None)
            except click.BadParameter as error:
                raise UsageError(f"{_flag(option)}: {error.message}") from error
    return values


def _flag(param: click.Parameter | None) -> str:
    return param.opts[0] if param is not None and param.opts else "the value"
