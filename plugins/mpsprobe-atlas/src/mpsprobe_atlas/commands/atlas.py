"""``mpsprobe atlas``: the group."""

from __future__ import annotations

import click

from mpsprobe.commands import OpenGroup


@click.group(cls=OpenGroup)
def atlas() -> None:
    """Many models on every torch release: what MPS does with each, swept once and asked often.

    'atlas sweep' judges workloads by their names and keeps the answers in a file.
    """
