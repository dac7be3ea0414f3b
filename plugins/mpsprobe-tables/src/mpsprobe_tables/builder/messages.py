"""Library → what its MPS code raises with: the messages that ``TORCH_CHECK`` and its like get there.

PyTorch hands every error the path of the source file that raises it. So the code between one raise and the next, in the
order of the instructions, says which texts belong to which file: it makes the addresses of the parts of the message and
of the path, and calls a function that raises, asserts or warns. What is compiled into an MPS function from a header has
the path of that header and is left out, and so are allocator, events and profiler (``ATen/mps``), which no operator's
arguments reach.

Conditions of ``TORCH_INTERNAL_ASSERT`` are left out. Those of 2.8.0, 2.12.1, 2.13.0, 2.14.0 and 2.15.0 were read, 42
to 62 in each. One of them is up to callers alone: where a copy to the CPU begins, which an advisory is about
(``copy-to-cpu-unaligned``). The rest is about what the kernel has made itself, or what the operator has checked before.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from mpsprobe_tables.builder.macho import MachO

SENTENCE = re.compile(r"\w \w")
SOURCE = re.compile(r"/.*\.(?:mm|cpp|h|hpp)")
MPS_SOURCE = re.compile(r"/.*/ATen/(?:native/(?:.*/)?mps/.*|native/.*\.mm|mps/EmptyTensor\.cpp)")
RAISES = re.compile(r"14torchCheckFail|^___cxa_throw$")
ASSERTS = re.compile(r"23torchInternalAssertFail")
WARNS = re.compile(r"^__ZN3c104warnE|^__ZN3c107WarningC")
LONGEST = 500  # characters; what is longer is the source of a shader
NEAR = 8  # instructions between the two that make an address
Words = npt.NDArray[np.int64]


def read_messages(library: MachO) -> dict[str, str]:
    """Each message, or part of one between two values that are put in, and the names of the files that raise it.

    Raises TableError: the library is corrupted.
    """
    messages: dict[str, set[str]] = {}
    elsewhere: set[str] = set()
    segments: list[list[str]] = [[]]
    function = -1
    starts = library.starts
    for place, item in sorted([*made_strings(library), *_calls(library)], key=lambda event: event[0]):
        inside = bisect_right(starts, place)
        if inside != function:
            _add(segments, messages, elsewhere)
            segments, function = [[]], inside
        if isinstance(item, str):
            segments[-1].append(item)
        elif item:
            segments.append([])
        else:
            segments[-1].clear()
    _add(segments, messages, elsewhere)
    return {text: ", ".join(sorted(files)) for text, files in sorted(messages.items()) if text not in elsewhere}


def _add(segments: list[list[str]], messages: dict[str, set[str]], elsewhere: set[str]) -> None:
    """The segments of one function. One without a path shares that of another, and the call that raises."""
    paths = {text for segment in segments for text in segment if SOURCE.fullmatch(text)}
    for segment in segments if paths else ():
        own = {text for text in segment if SOURCE.fullmatch(text)} or paths
        of_mps = {path.rpartition("/")[2] for path in own if MPS_SOURCE.fullmatch(path)}
        for text in segment:
            if len(text) > LONGEST or not SENTENCE.search(text) or text in paths or "INTERNAL ASSERT" in text:
                continue
            if of_mps:
                messages.setdefault(text, set()).update(of_mps)
            else:
                elsewhere.add(text)


def made_strings(library: MachO) -> Iterator[tuple[int, str]]:
    """Where the code makes the address of a C string (``adrp`` and ``add``), and the string."""
    strings = dict(library.strings())
    start, words = _words(library)
    known = np.array(sorted(strings), dtype=np.int64)
    pages = np.nonzero(words & 0x9F000000 == 0x90000000)[0]
    made = words[pages]
    offset = (made >> 5 & 0x7FFFF) << 2 | made >> 29 & 3
    page = (start + 4 * pages & ~0xFFF) + (np.where(offset & 1 << 20, offset - (1 << 21), offset) << 12)
    for step in range(1, NEAR + 1):
        later = words[np.minimum(pages + step, len(words) - 1)]
        added = (later & 0xFFC00000 == 0x91000000) & (later >> 5 & 31 == made & 31)
        target = page + (later >> 10 & 0xFFF)
        hits = np.nonzero(added & np.isin(target, known))[0]
        for place, address in zip(pages[hits].tolist(), target[hits].tolist(), strict=True):
            yield start + 4 * (place + step), strings[address]


def _calls(library: MachO) -> Iterator[tuple[int, bool]]:
    """Where the code calls a function that raises (True), or one that asserts or warns (False)."""
    ends = dict.fromkeys(library.addresses(RAISES), True)
    ends |= {address: False for pattern in (ASSERTS, WARNS) for address in library.addresses(pattern)}
    start, words = _words(library)
    calls = np.nonzero(words & 0x7C000000 == 0x14000000)[0]  # bl and b
    offset = words[calls] & 0x3FFFFFF
    target = start + 4 * (calls + np.where(offset & 1 << 25, offset - (1 << 26), offset))
    hits = np.nonzero(np.isin(target, np.array(sorted(ends), dtype=np.int64)))[0]
    for place, address in zip(calls[hits].tolist(), target[hits].tolist(), strict=True):
        yield start + 4 * place, ends[address]


def _words(library: MachO) -> tuple[int, Words]:
    start, content = library.text()
    return start, np.frombuffer(content[: len(content) // 4 * 4], dtype="<u4").astype(np.int64)
