"""Where a line of source, a release or an issue can be read. Only these functions make links, and only to two hosts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from mpsprobe_exporters.document import Place
from mpsprobe_exporters.plain_text import call_site, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mpsprobe.schemas import Environment

GITHUB = "https://github.com"
# A file of a library as scanners name it: below the package, without the folder that it is installed in.
FILE = re.compile(r"(torch|transformers)((?:/\w[\w-]*)+\.py):([1-9][0-9]{0,6})", re.ASCII)
FOLDERS = {
    "torch": "pytorch/pytorch/blob/v{}/torch",
    "transformers": "huggingface/transformers/blob/v{}/src/transformers",
}
RELEASE = re.compile(r"[0-9]+(?:\.[0-9]+){1,3}", re.ASCII)
ISSUE = re.compile(r"([\w-]+/[\w.-]+)#([1-9][0-9]{0,8})", re.ASCII)
ADDRESS = re.compile(r"https?://[\w.-]+(?:/[\w.~%#?&=+:@/-]*)?", re.ASCII)


def lines(sites: Iterable[str], environment: Environment) -> tuple[Place, ...]:
    """Lines of source by file name and number, each once; those of a library's release with their address."""
    return tuple({place.text: place for place in (_line(site, environment) for site in sites)}.values())


def _line(site: str, environment: Environment) -> Place:
    match = FILE.fullmatch(site.replace("\\", "/"))
    url = ""
    if match:
        library, path, number = match.groups()
        release = (environment.torch if library == "torch" else environment.transformers) or ""
        if RELEASE.fullmatch(release):
            url = f"{GITHUB}/{FOLDERS[library].format(release)}{path}#L{number}"
    return Place(call_site(site), one_line(site), url)


def reference(source: str) -> Place:
    """An address, or an issue as ``owner/repository#number``; anything else is text."""
    issue = ISSUE.fullmatch(source)
    url = f"{GITHUB}/{issue[1]}/issues/{issue[2]}" if issue else source if ADDRESS.fullmatch(source) else ""
    return Place(one_line(source), url=url)
