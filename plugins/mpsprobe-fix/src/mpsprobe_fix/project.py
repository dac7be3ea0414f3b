"""What ``mpsprobe doctor PATH`` finds in a project before anything of it is installed or run: what it requires, what it
calls, and what the rules of ``mpsprobe fix`` would edit.
"""

from __future__ import annotations

import ast
import configparser
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from itertools import islice
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from mpsprobe.declarations import DoctorFinding
from mpsprobe.errors import UsageError
from mpsprobe_coverage.knowledge.advisories.store import all_entries
from mpsprobe_coverage.knowledge.kernels.mps import load_table
from mpsprobe_coverage.knowledge.kernels.releases import pick_release, torch_releases
from mpsprobe_fix.catalogue import REWRITES, operators_of
from mpsprobe_fix.facts import IMPORTS, parsed
from mpsprobe_fix.files import below, content, gather
from mpsprobe_fix.fixing import fixed
from mpsprobe_fix.rules import RULES

# From which release on MPS has them: pytorch#99272, GradScaler's kernels of 2.8, pytorch#125254.
SINCE = {"torch.autocast": "2.5", "torch.amp.GradScaler": "2.8", "torch.compile": "2.8", "torch.mps": "2.0"}
THREADS = {"threading.Thread", "concurrent.futures.ThreadPoolExecutor", "multiprocessing.pool.ThreadPool"}
ARM_PYTHON = "3.8"  # the first with builds for macOS on arm64 (python/cpython#85272)
# Rules whose edits say something about the set-up, and not only about a line.
OF_SETUP = ("spawned-workers", "process-group", "trainer-argument", "cuda-package")
_SET = re.compile(r"os\.environ(?:\[|\.setdefault\()'(\w+)'(?:\]\s*=|,)")
Places = Mapping[str, list[str]]


@cache
def known() -> Mapping[str, Any]:
    return tomllib.loads(resources.files(__package__).joinpath("known.toml").read_text(encoding="utf-8"))


def findings(path: str, mac: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Findings about the project at ``path``, for a ``mac`` with ``macos``, ``torch`` and ``chip``, as far as named.

    Raises UsageError: there is nothing at ``path``, or no table of that torch.
    """
    releases = torch_releases()
    release = pick_release(mac["torch"], releases) if "torch" in mac else None
    if "torch" in mac and release is None:
        raise UsageError(f"there is no kernel table of torch {mac['torch']}", f"Newest: {releases[-1]}.")
    gathered = gather([path])
    asked = list(required(Path(path)))
    calls, settings, late = _calls(path, [(source.name, source.code) for source in gathered.sources])
    pins = [requirement for requirement in asked if requirement.name in {"torch", "pytorch"}]
    allowed = [release for release in releases if all(_allows(pin.specifier, release) for pin in pins)]
    judged = release or (allowed or releases)[-1]
    yield from _packages(asked)
    yield from _torch(pins, allowed, judged, release, mac.get("macos"))
    yield from _python(asked)
    yield from _of_release(judged, calls)
    yield from _wrong_results(judged, calls, mac)
    yield from _settings(settings, late)
    patch = fixed(gathered, list(RULES.values()), release=judged)
    for name in OF_SETUP:
        places = [
            f"{change.file}:{change.line}" for change in (*patch.changes, *patch.decisions) if change.rule == name
        ]
        if places:
            yield DoctorFinding("warning", f"{_at(places)}: {RULES[name].reason}", f"mpsprobe fix {path} --only {name}")
    others = sum(change.rule not in (*OF_SETUP, "missing-operator") for change in patch.changes)
    if others:
        message = f"{others} place{' is' if others == 1 else 's are'} written for CUDA"
        yield DoctorFinding("warning", message, f"See the edits: mpsprobe fix {path}")


def _at(places: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(places))
    return ", ".join(distinct[:3]) + (f" and {len(distinct) - 3} more" if len(distinct) > 3 else "")


def _packages(asked: Iterable[Required]) -> Iterator[DoctorFinding]:
    about = known()
    for requirement in asked:
        local = re.search(r"\+(cu\d+|cuda\w*|rocm[\d.]*)", requirement.text)
        level, hint = "error", "On a Mac torch comes from the usual index: leave this out there."
        if not requirement.name or local:
            what = f"{requirement.text} is {f'a build for {local[1]}' if local else 'an index of CUDA builds'}"
        elif requirement.name in about["no_wheel"]:
            what = f"{requirement.name} has no wheel for macOS on arm64 (looked up on {about['dated']})"
            hint = f"Instead: {about['no_wheel'][requirement.name]}"
        elif requirement.name in about["needs_cuda"]:
            what, level = f"{requirement.name} installs, and its kernels need CUDA", "warning"
            hint = f"Instead: {about['needs_cuda'][requirement.name]}"
        elif requirement.name in about["conda"]["names"] or re.match(
            r"nvidia-|cupy-cuda|spconv-cu|cuda-", requirement.name
        ):
            what, hint = f"{requirement.name} is a part of CUDA", 'Only for CUDA: add ; sys_platform == "linux"'
        else:
            continue
        yield DoctorFinding(level, f"{requirement.place}: {what}", hint)


def _torch(
    pins: list[Required], allowed: list[str], judged: str, asked: str | None, macos: str | None
) -> Iterator[DoctorFinding]:
    place = _at(pin.place for pin in pins)
    if pins and not allowed:
        yield DoctorFinding("error", f"{place}: no torch with MPS fits {', '.join(pin.text for pin in pins)}")
    elif pins and asked and asked not in allowed:
        yield DoctorFinding("warning", f"{place}: {', '.join(pin.text for pin in pins)} does not allow torch {asked}")
    minimum = load_table(judged).macos_minimum
    if macos and minimum and Version(macos) < Version(minimum):
        message = f"torch {judged} needs macOS {minimum} for MPS, and the Mac has {macos}"
        fitting = [
            release for release in allowed if Version(load_table(release).macos_minimum or "0") <= Version(macos)
        ]
        yield DoctorFinding("error", message, f"torch {fitting[-1]} runs there." if fitting else None)


def _allows(specifier: str, version: str) -> bool:
    try:
        return SpecifierSet(re.sub(r"\+\w+", "", specifier)).contains(version)
    except InvalidSpecifier:
        return True


def _python(asked: Iterable[Required]) -> Iterator[DoctorFinding]:
    for requirement in asked:
        minors = [f"3.{minor}" for minor in range(8, 20)]
        if requirement.name == "python" and not any(_allows(requirement.specifier, f"{minor}.99") for minor in minors):
            message = (
                f"{requirement.place}: {requirement.text}: Python has builds for Apple silicon from {ARM_PYTHON} on"
            )
            yield DoctorFinding("error", message)


def _calls(path: str, codes: Iterable[tuple[str, str]]) -> tuple[Places, Places, list[str]]:
    """Where each function is called; where each setting of transformers and accelerate, and each variable, is given;
    where a variable that torch reads at its import is set after it.
    """
    calls, settings, late = defaultdict(list), defaultdict(list), []
    gone, variables = known()["gone"], known()["variables"]
    for name, code in codes:
        program = parsed(code)
        if isinstance(program, str):
            continue
        torch_at = min((n.lineno for n in program.nodes if isinstance(n, IMPORTS)
                        and "torch" in ast.unparse(n).split()[1].split(".")[0]), default=None)  # fmt: skip
        for node in program.nodes:
            place = f"{name}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Call):
                full = program.qualified(node.func)
                calls[full].append(place)
                kind = full.rpartition(".")[2]
                for argument in node.keywords:
                    if argument.arg in gone.get(kind, {}):
                        settings[f"{kind}({argument.arg}=…): {gone[kind][argument.arg]}"].append(place)
                first = node.args[:1] if kind in {"set_start_method", "get_context"} else []
                given = [keyword.value for keyword in node.keywords if keyword.arg == "multiprocessing_context"]
                calls["fork"] += [place for argument in (*first, *given) if ast.unparse(argument) == "'fork'"]
            elif isinstance(node, ast.Constant) and node.value in variables["nothing"]:
                settings[str(node.value)].append(place)
            if torch_at is not None and isinstance(node, (ast.Assign, ast.Call)) and node.lineno > torch_at:
                match = _SET.match(ast.unparse(node))
                late += [f"{place} ({match[1]})"] if match and match[1] in variables["read_at_import"] else []
    return calls, settings, late


def _of_release(release: str, calls: Places) -> Iterator[DoctorFinding]:
    """What ``release`` does with what the code calls."""
    version, table = Version(release), load_table(release)
    for name, since in SINCE.items():
        places = [line for call, some in calls.items() if f"{call}.".startswith(f"{name}.") for line in some]
        if places and version < Version(since):
            message = f"{_at(places)}: {name} works on MPS from torch {since} on, and {release} is judged"
            yield DoctorFinding("warning", message, f"torch>={since}, or: mpsprobe fix")
    for call, places in calls.items():
        rewrite = next((rewrite for rewrite in REWRITES if call in rewrite.functions), None)
        operators = (rewrite.operators if rewrite else frozenset()) | operators_of(call)
        missing = sorted(operator for operator in operators if table.verdict(operator) in {"missing", "fallback"})
        if missing:
            hint = f"mpsprobe fix --run … writes {'it with other operators' if rewrite else 'a trip through the CPU'}"
            yield DoctorFinding(
                "warning", f"{_at(places)}: {call}: torch {release} has no kernel for {missing[0]}", hint
            )
    threads = [call for name in THREADS for call in calls.get(name, [])]
    if threads and any(name.startswith("torch.") for name in calls) and release.startswith(("2.14.", "2.15.")):
        message = f"{_at(threads)}: two threads that use the device end the process on torch {release} (pytorch#197805)"
        yield DoctorFinding("warning", message, "Let one thread use the device.")
    if calls.get("fork"):  # torch._C._mps_is_in_bad_fork says so of the process
        message = f"{_at(calls['fork'])}: a process that is forked after the device was used cannot use it"
        yield DoctorFinding("warning", message, "Use spawn, the default of macOS.")
    if builds := [
        build for name, some in calls.items() if name.endswith(("CUDAExtension", "RawKernel")) for build in some
    ]:
        yield DoctorFinding("error", f"{_at(builds)}: needs nvcc, which no Mac has", "Build it where CUDA is.")


def _wrong_results(release: str, calls: Places, mac: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Those known of ``release`` that calls may have: which, their layouts and dtypes say."""
    minimum = load_table(release).macos_minimum
    entries = [entry for entry in all_entries() if entry.affects(release, minimum, mac.get("macos"), mac.get("chip"))]
    for call, places in calls.items():
        operators = operators_of(call)
        names = [entry.id for entry in entries if operators & {*entry.operators} or call in entry.reached_from]
        if names:
            message = (
                f"{_at(places)}: of some calls of {call}, torch {release} is known for wrong results: {_at(names)}"
            )
            yield DoctorFinding("note", message, f"Which ones: mpsprobe advisories show {names[0]}")


def _settings(settings: Places, late: list[str]) -> Iterator[DoctorFinding]:
    for what, places in settings.items():
        name, is_gone, instead = what.partition(": ")
        if is_gone:
            yield DoctorFinding("error", f"{_at(places)}: {name} is gone", f"Instead: {instead}")
        else:
            yield DoctorFinding("note", f"{_at(places)}: {name} does nothing on a Mac")
    if late:
        message = f"{_at(late)} is set after torch is imported, which reads it once"
        yield DoctorFinding("warning", message, "Set it before the first import of torch, or in the shell.")


# What a project says that it needs: requirements*.txt, pyproject.toml, setup.cfg, environment.yml. Nothing is run.
MAC = {"sys_platform": "darwin", "platform_system": "Darwin", "platform_machine": "arm64", "os_name": "posix"}
MOST = 2_000  # requirements of one file; a list of all that is installed has some hundred
_CUDA_INDEX = re.compile(r"/whl/cu\d+|pypi\.nvidia\.com|pypi\.ngc\.nvidia\.com")
_CONDA = re.compile(r"(?:[\w-]+::)?([\w.-]+(?:\[[\w,]+\])?[ ]*(?:[=<>~!].*)?)")


@dataclass(frozen=True)
class Required:
    """One line of them, for a Mac: what only another platform needs is left out."""

    name: str  # as the index spells it; ``python``, or empty where the line is an address of CUDA builds
    text: str  # as it stands there
    place: str  # file and line
    specifier: str = ""


def required(folder: Path) -> Iterator[Required]:
    """What the files of ``folder`` ask for; a file that cannot be read asks for nothing."""
    for file in sorted(below(folder, [])):
        read = next((reader for pattern, reader in _READERS if re.fullmatch(pattern, file.name)), None)
        if read is None:
            continue
        try:
            text = content(file).decode("utf-8").replace("\r\n", "\n")
            asked = [entry for entry in islice(read(text), MOST) if isinstance(entry, str)]
        except (OSError, ValueError, configparser.Error, AttributeError, TypeError, RecursionError):
            continue
        lines = text.splitlines()
        for requirement in asked:
            line = next((number for number, written in enumerate(lines, 1) if requirement in written), None)
            yield from _of_text(requirement, f"{file}:{line}" if line else str(file))
        for number, written in enumerate(lines, 1):
            for word in [] if written.lstrip().startswith("#") else written.split():
                if "http" in word and _CUDA_INDEX.search(word, word.index("http")):
                    yield Required("", word[word.index("http") :].strip("\"'"), f"{file}:{number}")


def _of_text(text: str, place: str) -> Iterator[Required]:
    conda = re.fullmatch(r"([\w.-]+)\s*=\s*([\w.*]+)(=.*)?", text)  # a line of conda: numpy=1.26=build
    try:
        requirement = Requirement(f"{conda[1]}=={conda[2].removesuffix('.*').removesuffix('*')}.*" if conda else text)
        wanted = (
            requirement.marker is None
            or requirement.marker.evaluate({**MAC, "extra": ""})
            or "extra" in str(requirement.marker)
        )
    except ValueError:  # no requirement, or a marker that compares what cannot be compared
        return
    if wanted:
        yield Required(canonicalize_name(requirement.name), text, place, str(requirement.specifier))


def _of_requirements(text: str) -> Iterator[str]:
    for line in text.replace("\\\n", " ").splitlines():
        bare = re.split(r"(?:^|\s)#|\s--hash", line)[0].strip()
        if bare and not bare.startswith("-"):
            yield bare


def _of_pyproject(text: str) -> Iterator[str]:
    document = tomllib.loads(text)
    project, tool = document.get("project", {}), document.get("tool", {})
    yield from project.get("dependencies", [])
    for some in project.get("optional-dependencies", {}).values():
        yield from some
    yield from (
        requirement
        for some in document.get("dependency-groups", {}).values()
        for requirement in some
        if isinstance(requirement, str)
    )
    yield from document.get("build-system", {}).get("requires", [])
    if "requires-python" in project:
        yield f"python{project['requires-python']}"
    for name, value in tool.get("poetry", {}).get("dependencies", {}).items():
        version = value if isinstance(value, str) else ""
        yield f"{name}{version}" if re.match(r"[<>=!~]", version) else name


def _of_setup(text: str) -> Iterator[str]:
    options = configparser.ConfigParser(interpolation=None)
    options.read_string(text)
    for section in {"options", "options.extras_require"} & {*options.sections()}:
        for name, value in options[section].items():
            if name == "python_requires":
                yield f"python{value}"
            elif name == "install_requires" or section != "options":
                yield from filter(None, value.splitlines())


def _of_conda(text: str) -> Iterator[str]:
    """Its items, those of pip too; names of channels are among them, and no package."""
    for line in text.splitlines():
        dash, _, item = line.partition("#")[0].strip().partition(" ")
        match = _CONDA.fullmatch(item.strip()) if dash == "-" else None
        if match is not None:
            yield match[1]


_READERS = (
    (r"(requirements|constraints)[\w.-]*\.(txt|in)|.*requirements\.txt", _of_requirements),
    (r"pyproject\.toml", _of_pyproject),
    (r"setup\.cfg", _of_setup),
    (r"(environment|conda)[\w.-]*\.ya?ml", _of_conda),
)
