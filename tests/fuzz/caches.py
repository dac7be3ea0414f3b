"""The cache of answers: eight processes that write and harm it at once, and folders that are not as they should be.

``python -m tests.fuzz.caches 20 --seed 1`` from the root of the repository: so many rounds of writers, some of them
killed, with clocks years apart; then, where root starts it, each place once, for a root without its powers.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from mpsprobe.answers import folder
from tests.fuzz.changing import bytes_changed

WRITERS, TURNS, KEYS = 8, 150, 6
MOST_ENTRIES = 4
YEARS_S = 20 * 366 * 86_400
SOMEBODY = 1000  # another user
DROP, POWERS, VERSION = 24, 41, 0x20080522  # of Linux: PR_CAPBSET_DROP, capabilities, their structure
OLD = {"kind": "coverage", "of": "old"}


def asked(key: str) -> dict[str, str]:
    return {"workload": key}


def answer(key: str, random: Random) -> dict[str, Any]:
    text = "".join(random.choices("abcdef", k=random.choice((10, 3000))))
    return {"kind": "coverage", "of": key, "text": text, "backwards": text[::-1]}


def wrong_with(key: str) -> str | None:
    if (found := folder.find(key, asked(key))) is None:
        return None
    report = found[1]
    right = report.get("of") == key and report["text"] == report["backwards"][::-1]
    return None if right else f"{key} has {str(report)[:200]}"


def write_and_harm(random: Random, ahead: float) -> None:
    """What one of the writers does; its clock is ``ahead`` so many seconds."""
    now, ns = time.time, time.time_ns
    with (
        patch.object(folder, "MOST_ENTRIES", MOST_ENTRIES),
        patch.object(time, "time", lambda: now() + ahead),
        patch.object(time, "time_ns", lambda: ns() + int(ahead * 1e9)),
    ):
        for _ in range(TURNS):
            key, other = (f"key{random.randrange(KEYS)}" for _ in range(2))
            path, place = Path(folder.answers_folder()) / f"{key}.answer", random.random()
            with suppress(OSError):  # files of others come and go
                if place < 0.05:
                    path.write_bytes(bytes_changed(path.read_bytes(), random))
                elif place < 0.1:
                    path.replace(path.with_name(f"{other}.answer"))
                elif place < 0.15:
                    os.utime(path, (now() + random.uniform(-YEARS_S, YEARS_S),) * 2)
            if place > 0.99:
                folder.clear()
            elif place > 0.5:
                folder.keep(key, asked(key), answer(key, random))
            elif found := wrong_with(key):
                raise AssertionError(found)
            len(folder.kept())


def without_powers() -> None:
    """Root may what the modes of files allow, as any user, and what it starts too."""
    libc = ctypes.CDLL(None)
    for number in range(POWERS):
        libc.prctl(DROP, number, 0, 0, 0)
    assert libc.capset((ctypes.c_uint32 * 2)(VERSION, 0), (ctypes.c_uint32 * 6)()) == 0


def forked(work: Callable[[], object]) -> int:
    """The process that does ``work``; its exit code is 1, after a traceback, where that raised."""
    if pid := os.fork():
        return pid
    try:
        work()
    except BaseException:  # noqa: BLE001 - what is looked for
        traceback.print_exc(file=sys.stdout)
        sys.stdout.flush()
        os._exit(1)
    os._exit(0)


def code_of(pid: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def together(random: Random) -> Iterator[str]:
    """Eight writers; what is wrong with them, or after them."""
    clocks = (0.0, *(random.uniform(-YEARS_S, YEARS_S) for _ in range(WRITERS - 1)))
    pids = [forked(lambda at=at: write_and_harm(Random(random.random() + at), at)) for at in clocks]
    killed = random.sample(pids, 3)
    for pid in killed:
        time.sleep(random.uniform(0, 0.2))
        os.kill(pid, signal.SIGKILL)
    for pid in pids:
        if (code := code_of(pid)) and (code, pid in killed) != (-signal.SIGKILL, True):
            yield f"a writer ended with {code}"
    for path in Path(folder.answers_folder()).glob("*.unfinished"):
        os.utime(path, (random.choice((0, time.time() + YEARS_S)),) * 2)  # of a writer that was killed
    for key in (f"key{number}" for number in range(KEYS)):
        if not folder.keep(key, asked(key), answer(key, random)) or not folder.find(key, asked(key)):
            yield f"{key} is not kept afterwards"
        yield from filter(None, [wrong_with(key)])
    if left := [*Path(folder.answers_folder()).glob("*.unfinished")]:
        yield f"left: {left}"


def _poisoned(home: Path) -> Path:
    """An entry of another's, sound and valid for the key."""
    with patch.dict(os.environ, XDG_CACHE_HOME=str(home)):
        folder.keep("key0", asked("key0"), OLD)
    entry = home / "mpsprobe/answers/key0.answer"
    entry.chmod(0o644)
    for one in (entry, *entry.parents[:2]):
        os.chown(one, SOMEBODY, SOMEBODY)
    for one in entry.parents[:2]:
        one.chmod(0o1777)
    return entry


def _elsewhere(home: Path, made: Callable[[Path, Path], object]) -> None:
    theirs = _poisoned(home / "theirs")
    (mine := home / "mpsprobe/answers").mkdir(parents=True)
    made(theirs, mine / "key0.answer")


def _full(home: Path) -> None:
    (home / "mpsprobe").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "tmpfs", home / "mpsprobe"], check=True)
    (home / "mpsprobe/filler").write_bytes(b"x" * 4096)


PLACES: Mapping[str, Callable[[Path], object]] = {
    "as it should be": lambda home: None,
    "read-only": lambda home: home.chmod(0o555),
    "another's": lambda home: _poisoned(home).parent.chmod(0o755),
    "open to all, with another's answer": _poisoned,
    "a link to another's answer": lambda home: _elsewhere(home, lambda old, new: new.symlink_to(old)),
    "another name of another's answer": lambda home: _elsewhere(home, lambda old, new: os.link(old, new)),
    "a link to a device": lambda home: _elsewhere(home, lambda _, new: new.symlink_to("/dev/zero")),
    "a link to itself": lambda home: (home / "mpsprobe").symlink_to("mpsprobe"),
    "a link to nothing": lambda home: (home / "mpsprobe").symlink_to("nothing"),
    "a link to what is full": lambda home: (home / "mpsprobe").symlink_to("/dev/full"),
    "a link to another's folder": lambda home: (home / "mpsprobe").symlink_to(_poisoned(home / "theirs").parents[1]),
    "a file": lambda home: (home / "mpsprobe").write_text(""),
    "a pipe": lambda home: os.mkfifo(home / "mpsprobe"),
    "a folder in the place of an answer": lambda home: (home / "mpsprobe/answers/key0.answer").mkdir(parents=True),
    "full": _full,
}  # fmt: skip


def use(home: Path) -> None:
    """What a user's commands do with the cache; raises where an answer is another's, or something is left."""
    without_powers()
    random, there = Random(0), home / "mpsprobe/answers"
    assert folder.find("key0", asked("key0")) is None
    for _ in range(3):
        large = {**answer("key0", random), "long": [random.random() for _ in range(5000)]}
        kept = folder.keep("key0", asked("key0"), large)
        assert folder.find("key0", asked("key0")) if kept else not wrong_with("key0")
    len(folder.kept())
    with suppress(OSError):
        assert not [*there.glob("*.unfinished")]
    sys.stdout.write(f"  {'kept' if kept else 'not kept'}")
    for command in ("info", "clear", "info"):
        done = subprocess.run(
            ["mpsprobe", "cache", command], capture_output=True, text=True, check=False, timeout=60
        )  # fmt: skip
        said = done.stderr or done.stdout
        assert done.returncode in (0, 2) and "Traceback" not in said and "authors" not in said, said
        sys.stdout.write(f"; {command} {done.returncode} {said.splitlines()[0]}")
    sys.stdout.write("\n")
    sys.stdout.flush()


def main() -> int:
    """Exit code 1 where anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    failed, root = 0, os.getuid() == 0
    os.umask(0o022)
    for number in range(arguments.count):
        with tempfile.TemporaryDirectory(prefix="caches-") as home, patch.dict(os.environ, XDG_CACHE_HOME=home):
            wrong = [*together(Random(f"{arguments.seed} {number}"))]
            failed += bool(wrong)
            sys.stdout.write(f"{number}: {wrong or 'well'}\n")
            sys.stdout.flush()
    for name, made in PLACES.items() if root else ():
        home = Path(tempfile.mkdtemp(prefix="caches-"))
        with patch.dict(os.environ, XDG_CACHE_HOME=str(home), HOME=str(home)):
            made(home)
            sys.stdout.write(f"{name}:\n")
            sys.stdout.flush()
            failed += code_of(forked(lambda: use(home)))  # noqa: B023 - it has ended by the next turn
        if os.path.ismount(home / "mpsprobe"):
            subprocess.run(["umount", home / "mpsprobe"], check=True)
        shutil.rmtree(home)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
