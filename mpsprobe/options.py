"""Options of commands: their place in the help, their values with errors that name the nearest right one, and those
that several commands have. Public: plugins' commands use them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mpsprobe.declarations import DTYPES, SIZES
from mpsprobe.errors import UnknownName, UsageError
from mpsprobe.flags import flag_name
from mpsprobe.streams import QUIET

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from mpsprobe.protocols import RunOptions

F = TypeVar("F", bound=Callable[..., Any])
"""What a decorator of an option takes and returns."""

LARGEST = 2**31 - 1
"""The largest whole number that an option takes."""
MOST_PERCENT = 1000.0
"""The largest percentage that an option takes."""


class Flag(click.Option):
    """An option of a ``mpsprobe.commands.Command``, with its place in the help.

    Args:
        section: the heading that it stands below.
        often: whether ``--help`` shows it; ``--help-all`` shows every one. Its text there ends at a form feed.
        shortcuts: flags that stand for one of its values: ``{"--json": "json"}``.
    """

    def __init__(
        self,
        *arguments: Any,
        section: str = "Options",
        often: bool = False,
        shortcuts: Mapping[str, str] | None = None,
        **named: Any,
    ) -> None:
        super().__init__(*arguments, **{"show_default": True, **named})
        text = self.help or ""
        self.help, self._brief = text.replace("\f", ""), text.partition("\f")[0]
        self.section, self.often, self._shortcuts = section, often, shortcuts or {}
        self.secondary_opts += self._shortcuts

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Read the shortcuts too."""
        super().add_to_parser(parser, ctx)
        for name, value in self._shortcuts.items():
            parser.add_option(self, [name], self.name, action="store_const", const=value)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Its names and what they mean."""
        record = super().get_help_record(ctx)
        if record is None or not self._shortcuts:
            return record
        return ", ".join([record[0].partition(" / ")[0], *self._shortcuts]), record[1]

    def brief(self, ctx: click.Context) -> tuple[str, str]:
        """The same in short, for ``--help``: without second names, and without what stands behind the form feed."""
        names, text = self.get_help_record(ctx) or ("", "")
        for name in [name for name in self.opts if name.startswith("--")][1:]:
            names = names.replace(f", {name}", "")
        return names, text.replace(self.help or "", self._brief, 1)


def often(section: str, *names: str, **named: Any) -> Callable[[F], F]:
    """A ``Flag`` that ``--help`` shows, declared as by ``click.option``."""
    return click.option(*names, cls=Flag, section=section, often=True, **named)


def rare(section: str, *names: str, **named: Any) -> Callable[[F], F]:
    """A ``Flag`` that ``--help-all`` shows, declared as by ``click.option``."""
    return click.option(*names, cls=Flag, section=section, **named)


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in this order."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def completing(names: Callable[[], Iterable[str]]) -> Callable[..., list[str]]:
    """What a shell completes a value with that is one of ``names``, or several with commas between them."""

    def complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [before + comma + name for name in names() if name.startswith(last)]

    return complete


def complete_workload(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """The names of workloads that begin so; where there are none, files. Imports no workload."""
    from click.shell_completion import CompletionItem

    from mpsprobe.plugins.registry import get_registry

    completions = [CompletionItem(name) for name in get_registry().workloads() if name.startswith(incomplete)]
    return completions or [CompletionItem(incomplete, type="file")]


workloads_argument = click.argument("names", nargs=-1, metavar="[WORKLOAD]...", shell_complete=complete_workload)
"""Any number of workloads, which a shell completes."""


class File(click.ParamType):
    """The path of a file, which a shell completes."""

    name = "FILE"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """Let the shell complete the path."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(incomplete, type="file")]


class Named(click.ParamType):
    """One of a few names, or another name of one of them."""

    def __init__(self, kind: str, names: Sequence[str], also: Mapping[str, str] | None = None) -> None:
        self.name = kind
        self._names = tuple(names)
        self._also = {other: name for other, name in (also or {}).items() if name in names}

    def get_metavar(self, *_args: Any, **_kwargs: Any) -> str:
        """The names, with ``|`` between them: what the help shows."""
        return "|".join(self._names)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """``value``, if it is one of the names.

        Raises:
            UnknownName: it is none; the message has the nearest.
        """
        name = self._also.get(value, value)
        if name not in self._names:
            raise UnknownName(self.name, str(value), self._names, "There are: " + ", ".join(self._names) + ".")
        return str(name)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
        """The names that begin so."""
        from click.shell_completion import CompletionItem

        return [CompletionItem(name) for name in self._names if name.startswith(incomplete)]


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


OTHER_DTYPES = {"fp32": "float32", "fp16": "float16", "half": "float16", "bf16": "bfloat16"}
"""Other names of dtypes, as people write them."""
WHAT = "What"
"""The section of the help about what is run."""
ANSWER = "Answer"
"""The section about what is shown, and where it goes."""
TRAINING = "Training"
"""The section about how a model is trained."""


def _exporters() -> Iterable[str]:
    from mpsprobe.plugins.registry import get_registry

    return get_registry().exporters()


DTYPE_OPTION = often(
    WHAT, "--dtype", type=Named("dtype", DTYPES, OTHER_DTYPES), metavar="DTYPE", default="float32",
    help="float32, float16, bfloat16\f: of the parameters; or fp32, fp16, half, bf16.",
)  # fmt: skip
"""``--dtype``."""
SIZE_OPTION = rare(WHAT, "--size", type=Named("size", SIZES), default="real", help="Of the model; small: few layers.")
"""``--size``."""
TRUST_OPTION = rare(WHAT, "--trust-remote-code", is_flag=True, help="Let a checkpoint run Python code of its own.")
"""``--trust-remote-code``."""
AUTOCAST_OPTION = rare(
    TRAINING, "--autocast", type=Named("dtype", DTYPES[1:], OTHER_DTYPES), help="Run the forward pass under autocast."
)
"""``--autocast``."""
training_options = together(
    AUTOCAST_OPTION,
    rare(TRAINING, "--grad-accum", type=Positive(), default=1, help="Backward passes for each update."),
    often(TRAINING, "--lora", is_flag=True, help="Train LoRA adapters of all linear layers."),
    rare(TRAINING, "--lora-rank", type=Positive(), default=16, help="Of these adapters."),
)
"""How a model is trained, as ``check_training`` checks it."""
JSON = {"--json": "json"}
"""The shortcut of ``--format json``."""
EXPORTER_OPTION = often(
    ANSWER, "--format", "format_name", metavar="NAME", shortcuts=JSON, shell_complete=completing(_exporters),
    help="An exporter [default: table, or by -o's extension].",
)  # fmt: skip
"""``--format`` of a command that makes a report."""
FORMAT_OPTION = often(
    ANSWER, "--format", "format_name", type=Named("format", ("table", "json")), shortcuts=JSON, default="table",
    help="Of standard output.",
)  # fmt: skip
"""``--format table|json`` of a command that lists."""
OUTPUT_OPTION = often(ANSWER, "-o", "--output", type=File(), help="Write the report to FILE.")
"""``-o``."""
EXPORT_OPTION = rare(
    ANSWER, "--export", "exports", multiple=True, metavar="NAME[=PATH]", shell_complete=completing(_exporters),
    help="Also write this format; repeatable.",
)  # fmt: skip
"""``--export``."""
EVERYTHING_OPTION = rare(ANSWER, "--all", "everything", is_flag=True, help="On a terminal, leave nothing out.")
"""``--all``."""
QUIET_OPTION = rare(
    ANSWER, "-q", "--quiet", is_flag=True, expose_value=False, callback=lambda _, __, value: value and QUIET.set(True),
    help="On standard error only errors, and why the exit code is 1.",
)  # fmt: skip
"""``--quiet``."""
report_options = together(EXPORTER_OPTION, OUTPUT_OPTION, EXPORT_OPTION, QUIET_OPTION)
"""Where a report goes."""

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
