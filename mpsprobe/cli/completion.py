"""``mpsprobe completion bash | zsh | fish``."""

from __future__ import annotations

import click

from mpsprobe.cli.group import main_group
from mpsprobe.cli.main import COMPLETE
from mpsprobe.options import Named
from mpsprobe.streams import write_stdout

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=Named("shell", SHELLS), metavar="bash|zsh|fish")
def completion(shell: str) -> None:
    """Print the script that lets a shell complete commands, options, workloads, releases and chips.

    It asks mpsprobe at each Tab, so that it knows what plugins bring. Put the line into the shell's own file:

    \b
    eval "$(mpsprobe completion bash)"                                      in ~/.bashrc
    eval "$(mpsprobe completion zsh)"                                       in ~/.zshrc, after compinit
    mpsprobe completion fish > ~/.config/fish/completions/mpsprobe.fish     once
    """
    from click.shell_completion import ShellComplete, get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None  # click knows these
    # Not its own method: that of bash starts one, to find out whether it is old.
    write_stdout(ShellComplete.source(kind(main_group, {}, "mpsprobe", COMPLETE)))
