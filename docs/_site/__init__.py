"""Makes the reference pages out of the code when the site is built, so that they cannot say anything else than it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls once: the directives and events of this site."""
    from _site import api, commands, contents, findings, gallery, models

    contents.connect(app)
    app.add_directive("command", commands.Commands)
    app.add_directive("command-list", commands.CommandList)
    app.add_directive("flag-variables", commands.Variables)
    app.add_directive("check-codes", findings.CheckCodes)
    app.add_directive("report", gallery.Shown)
    app.add_directive("atlas", gallery.Atlas)
    app.connect("build-finished", gallery.write_pages)
    app.add_directive("models", models.Models)
    app.add_directive("public-module", api.Module)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
