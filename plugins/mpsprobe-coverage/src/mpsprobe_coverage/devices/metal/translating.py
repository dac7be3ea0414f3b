"""Metal source as C++: what the languages write differently, and one function for each kernel that C can call.

Metal is C++ with address spaces. Its numbers with a point are ``float`` and not ``double``; ``threadgroup`` variables
are shared by the lanes of a group; parameters say by attributes what they are. Templates of kernels, textures and
arguments in ``threadgroup`` memory are not known here: ``Unknown`` says which construct, and in which line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NUMBER = re.compile(
    r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/'
    r"|(?<![\w.])(?P<number>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+)(?![\w.])",
    re.DOTALL,
)
_SYSTEM = re.compile(r"^[ \t]*#[ \t]*(?:include[ \t]*<metal_\w+>|pragma[ \t]+once)[^\n]*$", re.MULTILINE)
_KERNEL = re.compile(r"(?P<attributes>(?:\[\[[^\]]*\]\]\s*)*)\bkernel\s+void\s+(?P<name>\w+)\s*\(")
_POINTER = re.compile(
    r"(?:const\s+)?(?P<space>device|constant)\s+(?:const\s+)?(?P<type>[\w:]+(?:\s*<[^<>]*>)?)\s*\*\s*(?P<name>\w+)"
)
_REFERENCE = re.compile(r"(?:const\s+)?(?:device|constant)\s+(?:const\s+)?(?P<type>[\w:]+)\s*&\s*(?P<name>\w+)")
_POSITION = re.compile(r"(?P<type>u?(?:int|short|long)[23]?|unsigned)\s+(?P<name>\w+)\s*\[\[\s*(?P<what>\w+)\s*\]\]")
_SHARED = re.compile(r"\bthreadgroup\s+(?P<what>[\w:]+(?:\s*<[^<>;]*>)?\s+(?P<name>\w+)\s*(?:\[[^;=]*\])*\s*;)")
_LOOP = re.compile(r"\b(?:for|while)\s*\(|\bdo\s*\{")
_BODY = re.compile(r"\s*\{")
_SPACE, _IN_MACRO = re.compile(r"\s*"), re.compile(r"(?:[ \t]|\\\n)*")
_MACRO = re.compile(r"^[ \t]*#(?:[^\n]|(?<=\\)\n)*\Z", re.MULTILINE)
_CAST = re.compile(r"\breinterpret_cast\s*<\s*(?:device|constant)\s+([^<>*]+(?:<[^<>]*>[^<>*]*)?)\*\s*>\s*\(")
# What the Metal compiler has no header of; c10's common.h has <array> for other languages than Metal.
_INCLUDE = re.compile(
    r"^[ \t]*#[ \t]*(?:include|import)\b(?![ \t]*<(?:metal_\w+|c10/metal/\w+\.h|array)>)[^\n]*", re.MULTILINE
)
# What the Metal Shading Language Specification leaves out of C++ (1.5.1), and what is of graphics.
_UNKNOWN = re.compile(
    r"\b(?:goto|asm|__asm(?:__)?|new|throw|try|virtual|thread_local|typeid|dynamic_cast|texture[123]d\w*|sampler|simdgroup_matrix|simdgroup_\w+8x8|visible_function_table|vertex|fragment|\[\[host_name)\b"
)
# Of c10's headers: every lane of a group computes all of it, between two barriers.
_ALIKE = re.compile(r"\bthreadgroup_welford_\w+\(threadgroup \w+\* data, unsigned size\) (?=\{)")
_WAITS = re.compile(r"threadgroup|simd")

# Where a thread is, of `Running` in threads.h: x, y and z, and the first of them alone.
_POSITIONS = {
    "thread_position_in_grid": "here.now->position",
    "thread_position_in_threadgroup": "here.now->in_group",
    "threadgroup_position_in_grid": "here.group_position",
    "threads_per_threadgroup": "here.group_size",
    "threads_per_grid": "mpsprobe_metal::Position{launch.grid[0], launch.grid[1], launch.grid[2]}",
    "thread_index_in_threadgroup": "mpsprobe_metal::Position{uint32_t(here.now->index)}",
    "thread_index_in_simdgroup": "mpsprobe_metal::Position{uint32_t(here.now->index % 32)}",
    "simdgroup_index_in_threadgroup": "mpsprobe_metal::Position{uint32_t(here.now->index / 32)}",
    "threads_per_simdgroup": "mpsprobe_metal::Position{32}",
}


class Unknown(ValueError):
    """A construct that is not known here; ``line`` is that of the source, from 1 on."""

    def __init__(self, construct: str, line: int) -> None:
        super().__init__(f"line {line}: {construct}")


class Parameter(NamedTuple):
    name: str
    dtype: str  # as Metal writes it
    is_tensor: bool


class Translated(NamedTuple):
    text: str
    kernels: dict[str, tuple[Parameter, ...]]  # what callers pass, in order


def translated(source: str) -> Translated:
    """``source``, whose headers of c10 are in it, as C++. Raises ``Unknown``."""
    source = _NUMBER.sub(_plain, source)
    refused = _UNKNOWN.search(source) or _INCLUDE.search(source)
    if refused is not None:
        raise Unknown(" ".join(refused[0].strip("[").split()), _line(source, refused.start()))
    source = _SYSTEM.sub("", source)
    source = _CAST.sub(r"mpsprobe_metal::pointer_to<\1>(", source)
    for alike in reversed([*_ALIKE.finditer(source)]):
        begin, end = alike.end(), _closing(source, alike.end()) + 1
        body = f"{{ return mpsprobe_metal::once(data, size, [&] {source[begin:end]}); }}"
        source = source[:begin] + body + source[end:]
    kernels: dict[str, tuple[Parameter, ...]] = {}
    pieces, callers, at = ['#include "standard.h"\n#line 1 "kernels"\n'], [], 0
    while (head := _KERNEL.search(source, at)) is not None:
        name = head["name"]
        end_of_parameters = _closing(source, head.end() - 1)
        opening = _BODY.match(source, end_of_parameters + 1)
        if opening is None:
            raise Unknown(f"the kernel {name} without its body", _line(source, head.start()))
        begin = opening.end() - 1
        end = _closing(source, begin) + 1
        passed, signature, arguments = _parameters(source, head.end(), end_of_parameters)
        body = _instrumented(_SHARED.sub(r"static \g<what> mpsprobe_metal::unwritten(\g<name>);", source[begin:end]))
        pieces += [_instrumented(source[at : head.start()]), f'\n#line {_line(source, begin)} "kernels"\n']
        pieces.append(f"static void {name}({', '.join(signature)}) {body}\n")
        waits = "true" if _WAITS.search(source[begin:end]) else "false"
        callers.append(_CALLER.format(name=name, arguments=", ".join(arguments), waits=waits))
        kernels[name] = passed
        at = end
    return Translated("".join([*pieces, _instrumented(source[at:]), *callers]), kernels)


def _plain(match: re.Match[str]) -> str:
    """A number as a ``float``; a comment as its line ends, because words in it are none of the language."""
    if match["number"]:
        return f"{match[0]}f"
    return match[0] if match[0].startswith('"') else " " + "\n" * match[0].count("\n")


_CALLER = """
extern "C" void mpsprobe_run_{name}(mpsprobe_metal::Launch* asked) {{
  mpsprobe_metal::run(*asked, [](mpsprobe_metal::Launch& launch, mpsprobe_metal::Running& here) {{
    (void)launch, (void)here;
    {name}({arguments});
  }}, {waits});
}}
"""


def _parameters(source: str, begin: int, end: int) -> tuple[tuple[Parameter, ...], list[str], list[str]]:
    """What is passed from outside; the parameters of the function in C++; the arguments that the caller gives."""
    passed: list[Parameter] = []
    signature, arguments = [], []
    for offset, text in _parts(source[begin:end]):
        bare = re.sub(r"\[\[\s*buffer\(\d+\)\s*\]\]", "", text).strip()
        number = len(passed)
        if (pointer := _POINTER.fullmatch(bare)) is not None:
            const = "const " if pointer["space"] == "constant" else ""
            signature.append(f"mpsprobe_metal::Buffer<{const}{pointer['type']}> {pointer['name']}")
            arguments.append(f"mpsprobe_metal::buffer<{const}{pointer['type']}>(launch, {number})")
            passed.append(Parameter(pointer["name"], pointer["type"], True))
        elif (reference := _REFERENCE.fullmatch(bare)) is not None:
            signature.append(f"const {reference['type']}& {reference['name']}")
            arguments.append(f"mpsprobe_metal::value<{reference['type']}>(launch, {number})")
            passed.append(Parameter(reference["name"], reference["type"], False))
        elif (position := _POSITION.fullmatch(bare)) is not None and position["what"] in _POSITIONS:
            signature.append(f"{position['type']} {position['name']}")
            where, width = _POSITIONS[position["what"]], position["type"][-1]
            axes = "xyz"[: int(width)] if width.isdecimal() else "x"
            arguments.append(f"{position['type']}({', '.join(f'({where}).{axis}' for axis in axes)})")
        else:
            raise Unknown(f"the parameter '{' '.join(bare.split())}'", _line(source, begin + offset))
    return tuple(passed), signature, arguments


def _parts(text: str) -> list[tuple[int, str]]:
    """The parameters between commas outside brackets, each with where it begins."""
    parts, depth, begin = [], 0, 0
    for at, letter in enumerate([*text, ","]):
        depth += (letter in "([<") - (letter in ")]>")
        if letter == "," and depth == 0:
            piece = text[begin:at]
            if piece.strip():
                parts.append((begin + len(piece) - len(piece.lstrip()), piece))
            begin = at + 1
    return parts


def _instrumented(body: str) -> str:
    """``body`` with a step counted in each turn of each loop, so that one that never ends is stopped."""
    pieces, at = [], 0
    for loop in _LOOP.finditer(body):
        if loop.start() < at:
            continue
        brace = loop.end() - 1
        if body[brace] == "(":
            brace = _closing(body, brace) + 1
            space = _IN_MACRO if _MACRO.search(body, 0, loop.start()) else _SPACE
            if gap := space.match(body, brace):
                brace = gap.end()
        if brace < len(body) and body[brace] == "{":
            pieces += [body[at : brace + 1], " mpsprobe_metal::step();"]
            at = brace + 1
        elif body[brace : brace + 1] != ";" or not body[: loop.start()].rstrip().endswith("}"):
            pieces += [body[at:brace], " if (mpsprobe_metal::step(), true) "]
            at = brace
    return "".join([*pieces, body[at:]])


def _closing(text: str, opening: int) -> int:
    """Where the bracket at ``opening`` is closed."""
    pair = {"(": ")", "{": "}"}[text[opening]]
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] == text[opening]) - (text[at] == pair)
        if depth == 0:
            return at
    raise Unknown(f"a '{text[opening]}' that nothing closes", _line(text, opening))


def _line(source: str, at: int) -> int:
    return source.count("\n", 0, at) + 1
