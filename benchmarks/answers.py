r"""What the product answers, before a change and after: ``benchmarks/answers.py record FILE``, then ``compare FILE``.

``record`` asks the installed ``mpsprobe`` for every kind of answer and writes all in a canonical form: without times,
folders and the machine, and in an order that does not depend on ``--jobs``. ``compare BEFORE [AFTER]`` shows each
difference by its field, those that are alike together; without AFTER it asks again, for what BEFORE is about. Rules in
``--accept REASONS.toml`` accept differences by where and what they are, never by the name of a workload:

    [[accept]]
    part = "named"                          # atlas, named, programs, keras, exporters, gates; left out: any
    path = 'report\.operators\[\*\]\.advice'   # a regular expression for the whole path; [*]: any element
    before = "Move .*"                      # for the whole value, as JSON; left out: any
    after = ".*"
    why = "Advice names the line."

A rule that accepts nothing is an error. Exit code 0: the same, or accepted; 1: different; 2: wrong use.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import re
import sys
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import zip_longest
from pathlib import Path
from typing import Any

from answer_parts import PARTS, Asking, CannotAsk

ABSENT = object()
"""In place of a value that one side does not have."""
IDENTITIES = ("operator", "name", "id", "torch", "workload", "category", "what", "module")
"""Keys by which an element of a list is known, where each element has another value there."""
MOST_SHOWN = 60
MOST_TEXT = 160


@dataclass
class Rule:
    """What a difference has to be like to be accepted."""

    why: str
    part: str | None = None
    path: str = ".*"
    before: str = ".*"
    after: str = ".*"
    accepted: int = field(default=0, init=False)

    def accepts(self, part: str, path: str, before: str, after: str) -> bool:
        """Whether it accepts this one."""
        texts = ((self.path, path), (self.before, before), (self.after, after))
        return self.part in (None, part) and all(re.fullmatch(one, text, re.DOTALL) for one, text in texts)


def rules(path: Path) -> list[Rule]:
    """Those of a file of reasons.

    Raises:
        ValueError: it is no such file, or names something else than a rule has.
    """
    document = tomllib.loads(path.read_text(encoding="utf-8"))
    known = {"why", "part", "path", "before", "after"}
    wrong = [name for one in document.get("accept", []) for name in one.keys() - known]
    if document.keys() - {"accept"} or wrong or not all(one.get("why") for one in document.get("accept", [])):
        raise ValueError(f"{path}: each [[accept]] has why, and may have part, path, before and after {wrong}")
    return [Rule(**one) for one in document.get("accept", [])]


def differences(before: Any, after: Any, path: str = "") -> Iterator[tuple[str, str, str]]:
    """The path of each field that is different, and what it was and is, as JSON."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted(before.keys() | after.keys()):
            yield from differences(before.get(key, ABSENT), after.get(key, ABSENT), f"{path}.{key}" if path else key)
    elif isinstance(before, list) and isinstance(after, list) and all(isinstance(one, str) for one in before + after):
        for what, start, end, begin, stop in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
            lines = zip_longest(before[start:end], after[begin:stop], fillvalue=ABSENT) if what != "equal" else ()
            yield from ((f"{path}[{start + n}]", _text(one), _text(other)) for n, (one, other) in enumerate(lines))
    elif isinstance(before, list) and isinstance(after, list):
        one, other = _by_identity(before, after)
        for key in [*one, *(other.keys() - one.keys())]:
            yield from differences(one.get(key, ABSENT), other.get(key, ABSENT), f"{path}[{key}]")
        common = [key for key in one if key in other]
        if common != [key for key in other if key in one]:
            yield f"{path}.order", _text(common), _text([key for key in other if key in one])
    elif before != after or type(before) is not type(after):
        yield path, _text(before), _text(after)


def _by_identity(*lists: list[Any]) -> list[dict[str, Any]]:
    for name in IDENTITIES:
        keyed = [[one.get(name) if isinstance(one, dict) else None for one in each] for each in lists]
        if all(None not in keys and len({*map(str, keys)}) == len(keys) for keys in keyed):
            return [dict(zip(map(str, keys), each, strict=True)) for keys, each in zip(keyed, lists, strict=True)]
    return [{str(index): one for index, one in enumerate(each)} for each in lists]


def _text(value: Any) -> str:
    return "absent" if value is ABSENT else json.dumps(value, sort_keys=True, ensure_ascii=False)


def compare(before: dict[str, Any], after: dict[str, Any], accepting: list[Rule]) -> int:
    """Print each kind of difference once; how many there are that no rule accepts."""
    found: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for part in sorted(before.keys() | after.keys()):
        one, other = before.get(part, {}), after.get(part, {})
        for key in sorted(one.keys() | other.keys()):
            for path, was, now in differences(one.get(key, ABSENT), other.get(key, ABSENT)):
                general = re.sub(r"\[[^\]]*\]", "[*]", path)
                accepted = [rule for rule in accepting if rule.accepts(part, general, was, now)]
                for rule in accepted:
                    rule.accepted += 1
                if not accepted:
                    found[part, general, was, now].append(f"{key}: {path}")
    most_first = sorted(found.items(), key=lambda item: (-len(item[1]), item[0]))
    for (part, _, was, now), places in most_first[:MOST_SHOWN]:
        say(f"{part} {places[0]}" + (f" and {len(places) - 1} more alike" if len(places) > 1 else ""))
        say(f"  before  {was[:MOST_TEXT]}\n  after   {now[:MOST_TEXT]}")
    if len(found) > MOST_SHOWN:
        say(f"and {len(found) - MOST_SHOWN} more kinds of differences")
    for rule in accepting:
        say(f"{rule.accepted} accepted: {rule.why}")
    return sum(map(len, found.values()))


def answers(asking: Asking, parts: list[str]) -> dict[str, Any]:
    """Of each part; one about which nothing can be asked here says why."""
    found = {}
    for part in parts:
        try:
            found[part] = PARTS[part](asking)
        except CannotAsk as error:
            found[part] = {"cannot be asked": str(error)}
            sys.stderr.write(f"{part}: {error}")
    return found


def say(text: str) -> None:
    """Onto standard output."""
    sys.stdout.write(text + "\n")


def written(path: Path, record: dict[str, Any]) -> None:
    """Write a record, whole or not at all; the same bytes for the same answers."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        text = json.dumps(record, sort_keys=True, indent=0, ensure_ascii=False).encode()
        unfinished.write_bytes(gzip.compress(text, mtime=0))
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def read(path: Path, parts: list[str] | None = None) -> dict[str, Any]:
    """A record, or ``parts`` of it.

    Raises:
        OSError, ValueError: it is none, or has no such part.
    """
    document: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    if parts and (missing := set(parts) - set(document["answers"])):
        raise ValueError(f"{path} has no part {', '.join(sorted(missing))}")
    known = {part: found for part, found in document["answers"].items() if part in (parts or document["answers"])}
    return {"about": document["about"] | {"parts": [*known]}, "answers": known}


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("record", "compare"))
    parser.add_argument("file", type=Path, help="the record that is written, or the one from before")
    parser.add_argument("after", type=Path, nargs="?", help="of compare: the record from after")
    parser.add_argument(
        "--draw", type=int, metavar="N", help="at most so many of each part [default: 200 of the atlas]"
    )
    parser.add_argument("--seed", type=int, default=33, help="of what is drawn")
    parser.add_argument("--part", action="append", choices=PARTS, help="this alone; repeatable")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--accept", type=Path, metavar="REASONS.toml")
    asked = parser.parse_args()
    try:
        accepting = rules(asked.accept) if asked.accept else []
        before = read(asked.file, asked.part) if asked.what == "compare" else None
        after = read(asked.after, asked.part) if asked.after else None
    except (OSError, ValueError) as error:
        parser.error(str(error))
    about = {"draw": asked.draw, "seed": asked.seed, "parts": asked.part or [*PARTS]}
    if before is not None:
        about = before["about"]
    after = after or {
        "about": about,
        "answers": answers(Asking(about["draw"], about["seed"], asked.jobs), about["parts"]),
    }
    if before is None:
        written(asked.file, after)
        say(", ".join(f"{part}: {len(found)}" for part, found in after["answers"].items()))
        return 0
    if about != after["about"]:
        parser.error(f"the two are about different parts: {about} and {after['about']}")
    left = compare(before["answers"], after["answers"], accepting)
    if stale := [rule.why for rule in accepting if not rule.accepted]:
        parser.error(f"rules that accept nothing: {'; '.join(stale)}")
    say(f"{left} differences" if left else "The same")
    return int(left > 0)


if __name__ == "__main__":
    sys.exit(main())
