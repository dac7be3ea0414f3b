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


def test_a_flag_is_called_by_its_long_form() -> None:
    names = {flag_name(option): option.name for option in inner.params if isinstance(option, click.Option)}
    assert names == {
        "out_put": "chosen",
        "short": "short",
        "named": "named",
        "never": "never",
        "many": "many",
        "pair": "pair",
    }


def test_variables_carry_the_names_of_commands_and_flags() -> None:
    name_variables(outer, "MPSPROBE_OUTER")
    assert outer.params[0].envvar == "MPSPROBE_OUTER_LEVEL"
    variables = [option.envvar for option in inner.params]
    assert variables == [
        "MPSPROBE_OUTER_IN_NER_OUT_PUT",
        "MPSPROBE_OUTER_IN_NER_SHORT",
        "MINE",
        None,
        "MPSPROBE_OUTER_IN_NER_MANY",
        "MPSPROBE_OUTER_IN_NER_PAIR",
        None,
    ]


def test_settings_reach_the_parameters() -> None:
    table = {"level": 3, "in-ner": {"out_put": "x", "many": "one", "pair": [1, 2]}}
    apply_settings(outer, "outer", {"outer": table})
    assert table == {"level": 3, "in-ner": {"chosen": "x", "many": ["one"], "pair": [1, 2]}}


@pytest.mark.parametrize("settings", [None, {}, {"outer": 3}, {"other": {"level": 1}}])
def test_no_table_no_change(settings: Any) -> None:
    apply_settings(outer, "outer", settings)


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
