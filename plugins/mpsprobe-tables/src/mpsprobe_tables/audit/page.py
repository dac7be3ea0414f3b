"""The audit as the page of the documentation: for somebody who wonders how far to believe a verdict."""

from __future__ import annotations

from collections.abc import Iterator

from mpsprobe_coverage.knowledge.judging.lists import Lists
from mpsprobe_tables.audit import grids
from mpsprobe_tables.audit.exceptions import MOST_LINES
from mpsprobe_tables.audit.result import Audit, ReleaseAudit
from mpsprobe_tables.audit.scoring import left_to_numbers


def page(audit: Audit, command: str) -> str:
    """Markdown; ``command`` is the one that makes it again."""
    one = audit.focus
    parts = [
        "# How far to trust a verdict: the audit",
        f"Made by `{command}` with torch {audit.torch_version}. Not written by hand: run it again instead of editing.",
        *(f"**An internal error of the virtual device: {line}**" for line in audit.internal),
        *_short(one),
        *_compared(audit, one),
        f"## The figures for torch {one.release}",
        "Recall / precision for each dtype, by verdicts alone (with how many of the tests that fail are found) and of "
        "the outcome of the test. *Reference raises* "
        "counts the tests expected to fail that no verdict speaks of, because the CPU raises or random numbers decide.",
        *_grid(grids.figures(one)),
        *_bullets(grids.two_figures(one)),
        "### List by list",
        "What was predicted of the tests that each list names, by mechanism alone. A test may stand in several lists.",
        *_grid(grids.lists(one)),
        *_disagreements(one),
        *_exceptions(one),
        *_left_to_numbers(one),
        *_beyond(one),
        *_releases(audit),
        *_untested(audit),
        *_modules(audit),
        *_limits(),
    ]
    return "\n\n".join(parts) + "\n"


def _short(one: ReleaseAudit) -> Iterator[str]:
    yield f"In short, for torch {one.release}, whose lists no rule was made with:"
    lines = []
    for mode in one.scores:
        forward, gradient = (one.verdicts(mode, which) for which in (False, True))
        lines.append(
            f"- {grids.TITLES[mode].capitalize()}: of {forward.failing} forward tests that fail on a Mac though "
            f"their reference works, the verdicts find {forward.hits} (recall {forward.recall:.3f}); of "
            f"{forward.hits + forward.false} that they refuse, {forward.hits} fail (precision "
            f"{forward.precision:.3f}). Of {gradient.failing} gradient tests of that kind they find {gradient.hits}."
        )
    yield "\n".join(lines)


def _compared(audit: Audit, one: ReleaseAudit) -> Iterator[str]:
    scope = f"{audit.entries} entries" if not audit.only else f"{audit.entries} chosen entries"
    yield "## What was compared"
    yield (
        f"PyTorch describes its operators in the OpInfo database, with sample inputs: {scope} and "
        f"{audit.samples:,} samples "
        f"here, each counted once for each dtype ({', '.join(audit.dtypes)}). On a Mac, PyTorch's CI runs every "
        "sample on "
        "the CPU and on MPS and compares (`TestConsistency` in `test/test_mps.py`: the results, and in float32 "
        "and float16 "
        "the gradients). Which of these tests it expects to fail stands in lists in each macOS wheel since 2.8.0 "
        "(`torch/testing/_internal/common_mps.py`) and at the entries."
    )
    yield (
        "The audit runs the same samples on the virtual device, which knows no Mac, and on the CPU, and says about "
        "each test "
        "whether it fails:"
    )
    yield "\n".join(
        (
            "- **refused**: a call of some sample is judged `missing` or `unsupported`. This is what a verdict "
            "speaks of.",
            "- **reference raises**: the same sample raises on the CPU, or its gradient does, so that the comparison "
            "cannot pass wherever it runs. From 2.11.0 on the test computes a reference of 16 bits or booleans in "
            "float32 where the CPU has no kernel for them; then that is no reason, unless the result is not a tensor. "
            "From 2.15.0 on the samples of entries that support no gradients ask for none (pull request 195395), so "
            "that no gradient is missing there; before, some 50 tests of the lists failed for that alone.",
            "- **random**: the gradient depends on random numbers of the forward pass, so that no two devices agree.",
            "- **runs**: none of these.",
        )
    )
    yield (
        "*Recall* is the share of the tests expected to fail that are predicted to; *precision* the share of those "
        "predicted to fail that are expected to. Skipped tests are left out, and so are expectations of wrong numbers "
        "(`UNDEFINED_XFAILLIST`) and booleans compared with a reference in float32 that is not whole: a verdict "
        "says nothing about numbers. A gradient test counts where its forward "
        "part is "
        "expected to pass. *Verdicts alone* counts only what the device refuses, over tests whose reference works."
    )
    yield (
        "There are two modes. *Mechanism alone* uses what was read from the binaries, and no list of any release. "
        "*With neighbouring lists* uses those of the nearest older and newer release with another list, which is "
        "what a "
        "release without a list gets. In neither is the list of the judged release a source of its verdicts; in daily "
        "use it is, so that `mpsprobe coverage` knows more than these figures say."
    )
    yield f"The expectations of torch {one.release} were read from `{one.wheel}` (SHA-256 `{one.sha256}`)."


def _disagreements(one: ReleaseAudit) -> Iterator[str]:
    yield "## Every disagreement"
    for kind, meaning in (
        ("missed", "Expected to fail, and not predicted: here a verdict may say `native` where a Mac raises."),
        ("false", "Predicted to fail, and expected to pass: here a verdict may frighten without a reason."),
    ):
        grid = grids.disagreeing(one, kind)
        yield f"### {meaning.split(':')[0]}"
        yield (meaning if grid.rows else "None.")
        yield from _grid(grid)


def _exceptions(one: ReleaseAudit) -> Iterator[str]:
    grid = grids.exceptions(one)
    yield "## What the lists say for another reason"
    yield (
        "These expectations stand in a list of what is unimplemented and describe something else. They are left out of "
        f"the figures. The table is committed (`audit/exceptions.toml`), has at most {MOST_LINES} lines, and each line "
        "its evidence."
        if grid.rows
        else "No expectation had to be left out."
    )
    yield from _grid(grid)


def _left_to_numbers(one: ReleaseAudit) -> Iterator[str]:
    found = left_to_numbers(one.scores["none"].judged) if "none" in one.scores else {}
    if found:
        yield "## Left to numbers"
        yield (
            "Where the CPU has no kernel for booleans, the test compares MPS with a reference in float32. Whether "
            "0.69 and a boolean agree is a matter of numbers, so such tests are left out of the figures. This rule "
            "was made after the disagreements were seen; what other rules would give stands here, by mechanism alone."
        )
        yield "\n".join(
            f"- {row}: {left.failing} expected to fail and {left.passing} expected to pass are left out. Counted as "
            f"predicted failures they would give recall {left.as_failures.recall:.3f} and precision "
            f"{left.as_failures.precision:.3f}, counted as predicted to pass {left.as_passes.recall:.3f} and "
            f"{left.as_passes.precision:.3f}."
            for row, left in found.items()
        )


def _beyond(one: ReleaseAudit) -> Iterator[str]:
    found = list(grids.beyond(one))
    if found:
        yield "## Dtypes that MPS does not claim"
        yield (
            "From 2.11.0 on an entry may claim fewer dtypes for MPS than for the CPU. No test runs the others, "
            "so nothing "
            "is known for certain; many are refused on a Mac, some merely untested."
        )
        yield from _bullets(iter(found))


def _releases(audit: Audit) -> Iterator[str]:
    if len(audit.releases) < 2:
        return
    yield "## Other releases"
    yield (
        "The same code on the expectations of each release that has any, nothing fitted to them. The samples are "
        "those of "
        f"torch {audit.torch_version}, so entries that a release lacks are left out, and where it was given other "
        "samples "
        "it may fail in others. First the forward tests, then the gradients."
    )
    yield from _grid(grids.releases(audit))
    yield from _grid(grids.releases(audit, gradient=True))
    yield (
        "The tables by dtype are of verdicts alone; in parentheses the tests expected to fail whose reference raises."
    )
    for mode in audit.modes:
        yield from _by_dtype(audit, mode)


def _by_dtype(audit: Audit, mode: Lists) -> Iterator[str]:
    grid = grids.releases_by_dtype(audit, mode)
    yield f"### {grid.title}, by dtype"
    yield from _grid(grid)


def _untested(audit: Audit) -> Iterator[str]:
    if not audit.untested:
        return
    yield "## Samples that no test has"
    yield (
        "OpInfo has few samples of more than four dimensions, and none with a dtype that the CPU refuses: no test of "
        "PyTorch says what a Mac does with them, so there is no recall. Each entry was tried once for each rank and "
        "dtype where one of its float32 samples could be changed to it: of a higher rank, if the CPU takes it; of "
        "another dtype, if the CPU refuses it. The columns say what the verdicts rest on, with all lists: the source "
        "of a refusal; *registered only* where nothing but a registration stands for the dtype, which is what to trust "
        "least; *native* where tests or Metal kernels show the dtype for each call (of the rank nothing is shown); "
        "*raised* where the entry itself raises for the dtype before a kernel is reached, on every device."
    )
    for one in audit.untested:
        grid = grids.untested(one)
        yield f"### On torch {one.release}"
        yield from _grid(grid)


def _modules(audit: Audit) -> Iterator[str]:
    if not audit.modules:
        return
    yield "## Modules"
    yield (
        "PyTorch has a database of modules too (`torch/testing/_internal/common_modules.py`), whose tests run on Macs "
        "since 2.1.0, in train and eval mode (`test_forward`, and for gradients `test_non_contiguous_tensors`). Its "
        "entries carry marks: a test fails on MPS, strictly, or is skipped there. The modules of torch "
        f"{audit.torch_version} ran on the virtual device of each release and were compared with the marks of that "
        "release. No list of any release is about modules, so these are the verdicts that a user gets."
    )
    yield (
        "*Recall* is the share of the tests expected to fail that are predicted to, *precision* the share of those "
        "refused that carry a mark. A skip says that something is wrong and not what, and often stays for years after "
        "it was mended. *Numbers* are tests that are expected to fail in float16 alone and compare with a reference: "
        "tolerances (pytorch issue 119108), of which a verdict says nothing."
    )
    yield from _grid(grids.modules(audit.modules))
    idle = dict.fromkeys(name for one in audit.modules for name in one.idle)
    if idle:
        releases = [one.release for one in audit.modules if one.idle]
        names = ", ".join(f"`{name}`" for name in idle)
        yield (
            f"Marks that never act: those of {names} ({releases[0]} to {releases[-1]}) name the class `TestModuleMPS`, "
            "and marks are looked up by the generic class, `TestModule`. So these tests run on Macs and are expected "
            "to pass."
        )
    grid = grids.disagreeing_modules(audit.modules)
    yield "### Every disagreement with a mark"
    yield from _grid(grid) if grid.rows else ("None.",)


def _limits() -> Iterator[str]:
    yield "## What the figures do not say"
    yield "\n".join(
        (
            "- Samples are small. A kernel that refuses large sizes, or gives wrong numbers with them, passes here.",
            "- Whether numbers are right: advisories (`mpsprobe advisories list`) hold what is known.",
            "- Whether a dtype is refused or merely untested where an entry does not claim it.",
            "- Other macOS versions: the lists are read as on the newest macOS that the release knows.",
            "- An entry is many calls. One that is refused in one sample counts as much as one refused in all.",
            "- Operators that no entry calls are in no figure.",
        )
    )


def _grid(grid: grids.Grid) -> Iterator[str]:
    if grid.rows:
        rule = ("--:" if position in grid.numbers else "---" for position in range(len(grid.headings)))
        rows = (grid.headings, tuple(rule), *(tuple(map(_cell, row)) for row in grid.rows))
        yield "\n".join("| " + " | ".join(row) + " |" for row in rows)


def _cell(text: str) -> str:
    """Text that Markdown leaves as it is: names have underscores, messages anything."""
    for special in "\\`*_[]<>|":
        text = text.replace(special, "\\" + special)
    return text


def _bullets(lines: Iterator[str]) -> Iterator[str]:
    found = "\n".join(f"- {_cell(line)}" for line in lines)
    if found:
        yield found
