"""Variables and settings of flags, also of subcommands."""

from __future__ import annotations

from typing import Any

import click
import pytest

from mpsprobe.errors import UsageError
from mpsprobe.flags import apply_settings, flag_name, name_variables


@click.group()
@click.option("--level", type=int)
def outer(level: int) -> None: ...


@outer.command("in-ner")
@click.option("-o", "--out-put", "chosen")
@click.option("-x", "short")
@click.option("--named", envvar="MINE")
@click.option("--never", allow_from_autoenv=False)
@click.option("--many", multiple=True)
@click.option("--pair", nargs=2)
@click.argument("argument", required=False)
def inner(**values: Any) -> None: ...


def test_variables_carry_the_names_of_commands_and_flags() -> None:
    name_variables(outer, "MPSPROBE_OUTER")
    assert outer.params[0].envvar == "MPSPROBE_OUTER_LEVEL"
    options = [option for option in inner.params if isinstance(option, click.Option)]
    assert {flag_name(option): (option.name, option.envvar) for option in options} == {
        "out_put": ("chosen", "MPSPROBE_OUTER_IN_NER_OUT_PUT"),
        "short": ("short", "MPSPROBE_OUTER_IN_NER_SHORT"),
        "named": ("named", "MINE"),
        "never": ("never", None),
        "many": ("many", "MPSPROBE_OUTER_IN_NER_MANY"),
        "pair": ("pair", "MPSPROBE_OUTER_IN_NER_PAIR"),
    }
    assert inner.params[-1].envvar is None  # that of the argument


def test_settings_reach_the_parameters() -> None:
    table = {"level": 3, "in-ner": {"out_put": "x", "many": "one", "pair": [1, 2]}}
    apply_settings(outer, "outer", {"outer": table})
    assert table == {"level": 3, "in-ner": {"chosen": "x", "many": ["one"], "pair": [1, 2]}}


def test_no_table_no_change() -> None:
    nothing: Any
    for nothing in (None, {}, {"outer": 3}, {"other": {"level": 1}}):
        apply_settings(outer, "outer", nothing)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"levle": 1}, "unknown setting tool.mpsprobe.outer.levle\nDid you mean 'level'?"),
        ({"level": [1]}, "tool.mpsprobe.outer.level takes one value"),
        ({"inner": {}}, "unknown setting tool.mpsprobe.outer.inner\nDid you mean 'in-ner'?"),
        ({"in-ner": {"chosen": 1}}, "unknown setting tool.mpsprobe.outer.in-ner.chosen"),
    ],
)
def test_a_wrong_setting_is_told(table: dict[str, Any], problem: str) -> None:
    with pytest.raises(UsageError) as caught:
        apply_settings(outer, "outer", {"outer": table})
    assert problem in str(caught.value)
