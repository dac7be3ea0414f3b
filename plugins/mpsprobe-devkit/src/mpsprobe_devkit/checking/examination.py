"""The whole check of one plugin: read it, run it in processes of its own, put together what is wrong."""

from __future__ import annotations

import dataclasses
import re
import statistics
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mpsprobe.plugins.discovery import FoundPlugin
from mpsprobe.plugins.plugin_files import folders_from_environment
from mpsprobe.suggestions import nearest
from mpsprobe_devkit.checking.child.recording import HEAVY
from mpsprobe_devkit.checking.findings import Finding, finding, in_order
from mpsprobe_devkit.checking.hooks import functions_in, judged, known_hooks
from mpsprobe_devkit.checking.locating import found_subject
from mpsprobe_devkit.checking.package import judged_metadata, judged_sources, static_heavy
from mpsprobe_devkit.checking.runs import Answers, Run
from mpsprobe_devkit.checking.sources import module_file, package_of, parsed
from mpsprobe_devkit.checking.step_findings import ended_step_findings, output_findings
from mpsprobe_devkit.checking.subject import WHEEL, Subject, module_of, normalized, top_level

TIMED_PROCESSES = 3
TARGET_FACTOR = 6  # times the limit of a step: torch may have to be imported, uncompiled and from a cold disk
CONTRACT_LIMIT_S = 120.0  # a contract renders every sample report several times, in other processes too
SLOW_MS = 50.0
"""A thin module that imports mpsprobe only takes 1 to 5 ms, and ``mpsprobe --help`` about 200 in all: from 50 ms on,
one plugin makes every command a quarter slower."""


@dataclass(slots=True)
class Examined:
    """What a check found out.

    Attributes:
        subject: what was checked.
        findings: everything that is wrong, by the part of the check, errors first.
        contributes: the declared names by kind; of an open name space the hook.
        hooks: the hooks that it implements.
        import_ms: the median time that importing its thin module adds to the imports of mpsprobe; ``None``
            where it cannot be imported.
        tests: the last line of the plugin's own tests; ``None`` where they were not run.
        not_checked: what could not be looked at, and why; no fault of the plugin.
    """

    subject: Subject
    findings: list[Finding] = field(default_factory=list)
    contributes: dict[str, list[str]] = field(default_factory=dict)
    hooks: list[str] = field(default_factory=list)
    import_ms: float | None = None
    tests: str | None = None
    not_checked: list[str] = field(default_factory=list)


def examine(
    target: str | Path,
    *,
    run_tests: bool = False,
    time_limit: float = 10.0,
    contracts: bool = True,
    blocked: Iterable[str] = (),
    folders: Iterable[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> Examined:
    """The check. Errors and the other arguments as ``mpsprobe_devkit.checking.examine``.

    Args:
        blocked: plugins that are not asked for the names that they have.
        folders: of single files that are asked too; by default those of ``MPSPROBE_PLUGINS_DIR``.
        progress: takes what is done next, in a few words.
    """
    tell = progress or (lambda _what: None)
    others = {"blocked": sorted(blocked), "folders": list(folders_from_environment() if folders is None else folders)}
    with ExitStack() as stack:
        subject = stack.enter_context(found_subject(target))
        examined = Examined(subject, list(subject.findings))
        if run_tests:
            from mpsprobe_devkit.checking.own_tests import check_that_tests_can_run

            check_that_tests_can_run(subject)
        examined.findings += [*judged_metadata(subject), *judged_sources(subject)]
        check = _Check(subject, examined, time_limit, contracts, others, tell)
        for point in subject.entry_points:
            check.look_at(point)
        if run_tests:
            from mpsprobe_devkit.checking.own_tests import run_own_tests

            tell("running its tests")
            found, examined.tests = run_own_tests(subject)
            examined.findings += found
    examined.findings = in_order(examined.findings)
    return examined


class _Check:
    """The parts of the check that run the plugin."""

    def __init__(
        self,
        subject: Subject,
        examined: Examined,
        limit: float,
        contracts: bool,
        others: dict[str, list[str]],
        tell: Callable[[str], None],
    ) -> None:
        self._subject = subject
        self._examined = examined
        self._limit = limit
        self._contracts = contracts
        self._others = others
        self._tell = tell
        front = [str(path) for path in subject.paths]
        self._path = [*front, *(path for path in sys.path if path not in front)]
        self._declared: dict[tuple[str, str], str] = {}
        self._required: set[str] = set()

    def look_at(self, point: FoundPlugin) -> None:
        """Everything about one entry point."""
        plain = dataclasses.asdict(point)
        self._tell(f"importing {point.target} and asking its hooks")
        answers = self._run("plugin", found=plain).answers()
        self._take(answers, point)
        examined = any(answers.events_with("examined"))
        if not examined:
            self._read_instead(point)
        declared = [
            {"kind": event["declared"], **{key: event[key] for key in ("fields", "where", "sound")}}
            for event in answers.events_with("declared")
        ]
        self._required = {text for one in declared for text in one["fields"].get("requires", ())}
        resolved = [event["resolved"] for event in answers.events_with("resolved")]
        if declared or resolved:
            self._tell(f"trying what it declares: {len(declared)}")
            self._try(point, declared, resolved)
        if examined and not any(one.code.startswith("import-") and one.level == "error" for one in answers.findings):
            self._time(plain, point)

    def _try(self, point: FoundPlugin, declared: list[dict[str, Any]], resolved: list[str]) -> None:
        """Ask the others for their names and use the targets, both at once."""
        distribution = self._subject.distribution
        with (
            closing(self._run("taken_names", distribution=distribution, names=resolved, **self._others)) as others,
            closing(
                self._run(
                    "targets",
                    declarations=declared,
                    contracts=self._contracts,
                    target_limit=self._limit * TARGET_FACTOR,
                    contract_limit=CONTRACT_LIMIT_S,
                )
            ) as targets,
        ):
            self._compare_names(point, declared, resolved, others.answers())
            answered = targets.answers()
        self._take(answered, point)
        self._judge_lacking(answered)

    def _run(self, mode: str, **request: Any) -> Run:
        own = [str(path) for path in self._subject.paths]
        own += [str(self._subject.root / package) for package in self._subject.packages] if not own else []
        return Run(mode, request, path=self._path, own=own, root=self._subject.root, limit=self._limit)

    def _take(self, answers: Answers, point: FoundPlugin) -> None:
        for one in answers.findings:
            self._examined.findings.append(self._in_wheel(one))
        self._examined.findings += ended_step_findings(answers.ended, point)
        self._examined.findings += output_findings(answers.printed, point)
        for event in answers.events_with("hooks"):
            self._examined.hooks = sorted({*self._examined.hooks, *event["hooks"]})
        self._examined.not_checked += [event["note"] for event in answers.events_with("note")]
        if answers.gave_up:
            self._examined.not_checked.append(answers.gave_up)

    def _in_wheel(self, one: Finding) -> Finding:
        """A module of its own that a wheel lacks was forgotten by the build."""
        if self._subject.kind == WHEEL and one.code == "entry-point-unresolved" and "no module" in one.message:
            return finding("not-in-wheel", one.message, one.where)
        return one

    # -- a plugin that cannot be imported ------------------------------------------------------------

    def _read_instead(self, point: FoundPlugin) -> None:
        """The findings from the source alone, for a module that could not be imported."""
        path = Path(point.file) if point.file else module_file(self._subject, module_of(point.target))
        tree = parsed(path) if path else None
        if path is None or tree is None:
            return
        shown = self._subject.relative(path)
        functions = functions_in(tree, shown)
        findings = list(judged(functions, known_hooks())) if functions else []
        known = {one.message.partition(":")[0] for one in self._examined.findings if one.code == "heavy-import"}
        heavy = static_heavy(tree, path, package_of(self._subject, path), HEAVY, shown)
        findings += [one for one in heavy if one.message.partition(":")[0] not in known]
        self._examined.findings += findings

    # -- names -----------------------------------------------------------------------------------------

    def _compare_names(
        self, point: FoundPlugin, declared: list[dict[str, Any]], resolved: list[str], others: Answers
    ) -> None:
        taken: dict[str, dict[str, str]] = {}
        for event in others.events_with("taken"):
            for kind, names in event["taken"].items():
                taken.setdefault(kind, {}).update(names)
        for ended in others.ended:
            self._examined.not_checked.append(f"the names of {ended.step.partition(':')[2]}, which {ended.detail}")
        for one in declared:
            kind, name = one["kind"], one["fields"]["name"]
            self._examined.contributes.setdefault(kind, []).append(name)
            owner = taken.get(kind, {}).get(name)
            if owner is None and (kind, name) in self._declared:
                owner = f"this plugin's entry point '{self._declared[kind, name]}'"
            self._declared.setdefault((kind, name), point.name)
            if owner is not None:
                self._examined.findings.append(
                    finding("name-taken", f"the {kind} '{name}' is declared by {owner} too", one["where"])
                )
        open_names = {event["open"]: event["owner"] for event in others.events_with("open")}
        for name in resolved:
            if name in open_names:
                message = f"mpsprobe_resolve_workload answers to '{name}', and so does {open_names[name]}"
                hint = "Answer only to names with a prefix of your own, like mine:NAME."
                self._examined.findings.append(finding("name-taken", message, "", hint))

    # -- targets ---------------------------------------------------------------------------------------

    def _judge_lacking(self, answers: Answers) -> None:
        for event in answers.events_with("absent"):
            own = top_level(event["absent"]) in self._subject.packages
            code = "not-in-wheel" if self._subject.kind == WHEEL and own else "target-unresolved"
            hint = f"There is {' and '.join(event['near'])}." if event["near"] else None
            self._examined.findings.append(finding(code, event["message"], event["where"], hint))
        for event in answers.events_with("lacking"):
            if self._is_optional(event["lacking"]):
                self._examined.not_checked.append(f"{event['message']} (it is optional)")
            else:
                hint = "Add what provides it to the dependencies, and install it here to check the rest."
                self._examined.findings.append(finding("target-unresolved", event["message"], event["where"], hint))

    def _is_optional(self, package: str) -> bool:
        """Whether an extra, or a workload's own ``requires``, brings ``package``: PIL is near to pillow."""
        metadata = self._subject.metadata
        texts = [*(metadata.optional if metadata else ()), *self._required]
        names = [normalized(match.group()) for text in texts if (match := re.match(r"\s*([\w.-]*\w)", text))]
        return bool(nearest(normalized(package), names))

    # -- time ------------------------------------------------------------------------------------------

    def _time(self, plain: dict[str, Any], point: FoundPlugin) -> None:
        """One after the other: two at once would time each other."""
        self._tell("timing its import")
        times = self._times(plain)
        if not times:
            return
        if min(times) > SLOW_MS:  # on a busy machine once more: what is slow stays slow
            times += self._times(plain)
        median = statistics.median(times)
        self._examined.import_ms = max(median, self._examined.import_ms or 0.0)
        if min(times) > SLOW_MS:
            message = (
                f"importing {point.target} adds {median:.0f} ms to the imports of mpsprobe "
                f"(median of {len(times)} processes; at most {SLOW_MS:.0f})"
            )
            path = module_file(self._subject, module_of(point.target))
            file = point.file or path
            where = self._subject.relative(file) if file else ""
            self._examined.findings.append(finding("slow-import", message, where, self._slowest(plain)))

    def _times(self, plain: dict[str, Any]) -> list[float]:
        times = []
        for _ in range(TIMED_PROCESSES):
            answers = self._run("time", found=plain).answers()
            times += [event["import_ns"] / 1e6 for event in answers.events_with("import_ns")]
        return times

    def _slowest(self, plain: dict[str, Any]) -> str | None:
        """Advice that names the packages which take most of the time."""
        answers = self._run("time", found=plain, record=True, packages=self._subject.packages).answers()
        costs = [(ms, name) for event in answers.events_with("costs") for name, ms in event["costs"].items()]
        shown = [f"{name} ({ms:.0f} ms)" for ms, name in sorted(costs, reverse=True)[:3] if ms >= 1]
        if not shown:
            return None
        return f"Most of it is {', '.join(shown)}: import that behind a target, or inside the function that uses it."
