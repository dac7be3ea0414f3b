"""What the pages show, as small as it goes: names are numbers of lists, releases that do the same are one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from mpsprobe_atlas.ranking import Met, Operator, gained, gather, operators, ranked, samples_of, tracker_text
from mpsprobe_atlas.reading import BLOCKING, SEVERITY, Judged, Run
from mpsprobe_coverage.knowledge.chips.store import GIB, all_chips

LETTERS = {
    "native": "n", "composite": "n", "unknown": "k", "fallback": "f", "missing": "m", "unsupported": "u", "stopped": "s"
}  # fmt: skip
FAILED, ABSENT = "x", "-"
FITS = {"fits": "f", "pressure": "p", "raises": "r", "unclear": "u"}
TOGETHER = 20  # models in one file
MOST_PLACES = 3  # lines of source of one finding
MOST_RANKED = 150


Numbers = defaultdict[Any, int]
"""Numbers of values, in the order in which they are met."""


def _numbers() -> Numbers:
    return defaultdict(count().__next__)


class SiteData:
    def __init__(self, rows: Sequence[Judged], about: Mapping[str, Any]) -> None:
        self.about = about
        answered = [one for one in rows if one.runs]
        self.oldest_first = max((list(one.runs) for one in answered), key=len, default=[])
        self.releases = self.oldest_first[::-1]
        settings = {one.setting for one in rows}  # the usual ones first
        self.settings = sorted(
            settings, key=lambda setting: (setting[1] != "inference", setting[2] != "float32", setting)
        )
        self.models: dict[str, dict[int, Judged]] = {}  # name → number of a setting → row
        for row in rows:
            self.models.setdefault(row.row.workload, {})[self.settings.index(row.setting)] = row
        self.met = gather(answered, self.oldest_first)
        self.by_setting = [
            gather((one for one in answered if one.setting == setting), self.oldest_first) for setting in self.settings
        ]
        self.operators = operators(answered)
        self.numbers = {name: index for index, name in enumerate(self.operators)}
        self.memory = sorted({size for one in answered for fits in one.fits.values() for size in fits})
        self.advisories: dict[str, Mapping[str, Any]] = {}
        for row in answered:
            self.advisories = {**row.advisories, **self.advisories}
        self.advisory_numbers = {name: index for index, name in enumerate(self.advisories)}

    def versions(self) -> dict[str, str]:
        """With which versions the atlas was made: of mpsprobe as a whole, and of what has models and operators."""
        found = self.about.get("versions") or {}
        shown = {str(name): str(version) for name, version in found.items() if version}
        return {name: version for name, version in shown.items() if not name.startswith("mpsprobe-")}

    def index(self) -> dict[str, Any]:
        architectures = sorted({name for met in self.met.values() for name in met.known})
        return {
            "made": max((row.row.made for rows in self.models.values() for row in rows.values()), default=""),
            "versions": self.versions(),
            "releases": self.releases,
            "settings": [list(setting) for setting in self.settings],
            "memory": self.memory,
            "machines": list(self._machines()),
            "operators": list(self.operators),
            "advisories": [
                [name, advisory["title"], advisory["workaround"], advisory["chips"]]
                for name, advisory in self.advisories.items()
            ],
            "models": [self._model(name, rows) for name, rows in self.models.items()],
            "together": TOGETHER,
            "architectures": architectures,
            "ranking": [self._ranking(met) for met in self.by_setting],
            "gained": [self._gained(met, architectures) for met in self.by_setting],
        }

    def _machines(self) -> Iterator[list[Any]]:
        """Label, generation, name of the chip, and the number of its memory, of each Mac that was sold."""
        for chip in all_chips().values():
            for size in chip.memory_gib:
                if size * GIB in self.memory:
                    label = f"{chip.label.removeprefix('Apple ')}, {size} GB"
                    yield [label, chip.generation, chip.name, self.memory.index(size * GIB)]

    def _model(self, name: str, rows: Mapping[int, Judged]) -> list[Any]:
        first = next(iter(rows.values())).row
        states = [self._states(rows.get(number)) for number in range(len(self.settings))]
        return [name, first.architecture or "", first.parameters, states]

    def _states(self, judged: Judged | None) -> str | int:
        """A letter for each release, the newest first; 0 where nothing was asked."""
        if judged is None:
            return 0
        if not judged.runs:
            return FAILED * len(self.releases)
        return "".join(LETTERS[judged.runs[name].state] if name in judged.runs else ABSENT for name in self.releases)

    def _ranking(self, met: Mapping[str, Met]) -> dict[str, Any]:
        """Tables of (operator, blocks, alone, letter), and the number of the table of each release."""
        tables = _numbers()
        by = []
        for release in self.releases:
            found = ranked(met, release)[:MOST_RANKED] if met[release].known else []
            rows = (
                (
                    self.numbers[ranked_operator.operator],
                    len(ranked_operator.architectures),
                    len(ranked_operator.alone),
                    LETTERS[ranked_operator.verdict],
                )
                for ranked_operator in found
            )
            by.append(tables[tuple(rows)])
        return {"tables": list(tables), "by": by}

    def _gained(self, met: Mapping[str, Met], architectures: Sequence[str]) -> list[Any]:
        """For each release, the newest first: clean, blocked, all; operators and architectures freed, and lost."""
        number = {name: index for index, name in enumerate(architectures)}
        return [
            [
                gain.clean,
                gain.blocked,
                len(met[gain.torch].known),
                [self.numbers[name] for name in gain.operators],
                [number[name] for name in gain.architectures],
                [number[name] for name in gain.lost],
            ]
            for gain in gained(met)
        ]

    def model_files(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The details of each ``TOGETHER`` models, by the name of their file."""
        for start in range(0, len(self.models), TOGETHER):
            strings = _numbers()
            details = [
                {number: self._details(row, strings) for number, row in rows.items()}
                for rows in [*self.models.values()][start : start + TOGETHER]
            ]
            yield f"models-{start // TOGETHER}", {"models": details, "strings": list(strings)}

    def _details(self, judged: Judged, strings: Numbers) -> dict[str, Any]:
        if not judged.runs:
            return {"error": judged.row.error, "hint": judged.row.hint}
        findings, runs = _numbers(), _numbers()
        by = []
        for release in self.releases:
            run = judged.runs.get(release)
            by.append(-1 if run is None else runs[self._run(judged, run, release, findings, strings)])
        return {"findings": list(findings), "runs": list(runs), "by": by}

    def _run(self, judged: Judged, run: Run, release: str, findings: Numbers, strings: Numbers) -> tuple[Any, ...]:
        """Findings, memory, known wrong results, failure, and a letter for each size of memory."""
        fits = judged.fits.get(release, {})
        letters = "".join(FITS.get(fits.get(size, ""), ABSENT) for size in self.memory)
        whole = map(judged.findings.__getitem__, run.findings)
        worst_first = sorted(whole, key=lambda finding: (-SEVERITY[finding["verdict"]], -finding["calls"]))
        numbers = tuple(findings[self._finding(finding, strings)] for finding in worst_first)
        wrong = tuple((self.advisory_numbers[name], calls) for name, calls in run.advisories.items())
        return numbers, run.peak_bytes, wrong, strings[run.failure or ""], letters

    def _finding(self, finding: Mapping[str, Any], strings: Numbers) -> tuple[Any, ...]:
        """Operator, letter, calls, why, what to do, native since, module, lines of source."""
        texts = [finding["reason"], finding["advice"], finding["native_since"], (finding["modules"] or [""])[0]]
        lines = ", ".join(finding["call_sites"][:MOST_PLACES])
        return (
            self.numbers[finding["operator"]],
            LETTERS[finding["verdict"]],
            finding["calls"],
            *(strings[text or ""] for text in (*texts, lines)),
        )

    def operator_files(self) -> Iterator[tuple[str, dict[str, Any]]]:
        models = {name: index for index, name in enumerate(self.models)}
        settings = {phase: index for index, (_, phase, _) in reversed([*enumerate(self.settings)])}
        for name, operator in self.operators.items():
            yield f"operator-{self.numbers[name]}", self._operator(operator, models, settings)

    def _operator(self, operator: Operator, models: Mapping[str, int], settings: Mapping[str, int]) -> dict[str, Any]:
        history = []
        for release in self.releases:
            by_architecture = self.met[release].operators.get(operator.name, {})
            blocked = sum(bool(set(BLOCKING) & set(phases.values())) for phases in by_architecture.values())
            worst = max(self.met[release].verdicts(operator.name), key=SEVERITY.__getitem__, default="native")
            history.append((LETTERS[worst], len(by_architecture), blocked))
        callers = sorted(operator.callers.items(), key=lambda caller: (-caller[1], caller[0]))
        return {
            "history": history,
            "callers": [(models[name], settings[phase], calls) for (name, phase), calls in callers],
            "dtypes": operator.dtypes,
            "examples": [
                (ordered_example.call, [models[name] for name in ordered_example.callers])
                for ordered_example in operator.ordered_examples()
            ],
            "reasons": list(operator.reasons.items())[:3],
            "tracker": tracker_text(operator, self.met, self.versions()),
            "samples": samples_of(operator, self.versions()),
        }
