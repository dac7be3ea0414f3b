"""``mpsprobe checkpoint PATH|HUB_ID``."""

from __future__ import annotations

import click

from mpsprobe import exporting
from mpsprobe.options import EXPORTER_OPTION, OUTPUT_OPTION
from mpsprobe.plugins.registry import get_registry


@click.command()
@click.argument("name", metavar="PATH|HUB_ID")
@click.option(
    "--torch",
    "torch_release",
    metavar="VERSION|installed|latest",
    help="The release to judge it for [default: the installed one, else the newest].",
)
@EXPORTER_OPTION
@OUTPUT_OPTION
@click.option("--all", "everything", is_flag=True, help="On a terminal, show its files and imports too.")
def checkpoint(
    name: str, torch_release: str | None, format_name: str | None, output: str | None, everything: bool
) -> None:
    """Say what a checkpoint holds, what MPS does with it, and what it takes, from the headers of its files.

    PATH is a file or a folder: safetensors, with or without shards, GGUF, what torch.save wrote, a pipeline of
    diffusers, an adapter of PEFT. HUB_ID is a repository in the local cache; nothing is downloaded. Nothing is loaded
    or unpickled, and torch is not needed.

    \b
    mpsprobe checkpoint path/to/folder
    mpsprobe checkpoint model-Q4_K_M.gguf --torch 2.13.0
    mpsprobe checkpoint organisation/repository -o report.html
    """
    registry = get_registry()
    exporter = exporting.choose(registry, format_name, output, "checkpoint")

    from mpsprobe_hf.checkpoint.build import judged_release, read_checkpoint
    from mpsprobe_hf.checkpoint.hub import locate

    release = judged_release(torch_release)
    exporting.write(registry, exporter, read_checkpoint(name, locate(name), release), output, everything)
