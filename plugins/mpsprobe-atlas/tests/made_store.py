"""A large store to try things with, made up of operators that releases really miss."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mpsprobe_atlas.answers import pack
from mpsprobe_atlas.store import Row, WritableStore
from mpsprobe_coverage.kernels.mps import MPS_FAMILY

GIB = 2**30
RELEASES = (*MPS_FAMILY.releases, *(f"2.{minor}.0" for minor in range(16, 24)))
"""As many as there will be in a few years; those to come are like the newest."""
PHASES = ("inference", "training")
MADE = "2026-11-22T20:00:00+00:00"
VERSIONS = {"mpsprobe": "0.1.0", "torch": "2.13.0", "transformers": "5.23.0"}
ENVIRONMENT = {
    "mpsprobe": "0.1.0", "python": "3.11.7", "platform": "linux-x86_64", "torch": "2.13.0", "torch_build": None,
    "transformers": "5.23.0", "torchvision": None, "tensorflow": None, "keras": None,
}  # fmt: skip
ADVISORIES = (
    ("conv-strided-weight", "A convolution reads a weight that is not contiguous as if it were", [], "2.5.0", "2.14.0"),
    ("bmm-long-reduction", "Batched products over more than 32766 elements add memory on M1 and M2", ["m1", "m2"],
     "2.13.0", None),
    ("softplus-strided", "Softplus of a permuted tensor is wrong before macOS 15", [], "2.4.0", "2.15.0"),
)  # fmt: skip
SYLLABLES = (
    "al", "ber", "con", "de", "fal", "gem", "hy", "lla", "mo", "ne", "phi", "qwen", "ro", "sam", "t5", "vit", "whis",
    "xl", "you", "zam",
)  # fmt: skip


@cache
def missed() -> dict[str, tuple[str, ...]]:
    """Operators → what each of ``RELEASES`` does with them: those that some release since 1.13 does not serve."""
    found = {}
    newest = MPS_FAMILY.load(MPS_FAMILY.releases[-1])
    for operator in sorted(MPS_FAMILY.load("2.6.0").missing | newest.missing | newest.fallback):
        known = [verdict for _, verdict in MPS_FAMILY.history(operator)]
        if operator.startswith("aten::") and "cudnn" not in operator and "mkldnn" not in operator:
            found[operator] = (*known, *[known[-1]] * (len(RELEASES) - len(known)))
    return found


def finding(operator: str, verdict: str, calls: int, phase: str, chance: random.Random) -> dict[str, Any]:
    """One as reports have it, with calls of it."""
    size, batch = chance.choice((64, 128, 512, 768, 1024)), chance.choice((1, 2, 8))
    packet, _, overload = operator.removeprefix("aten::").partition(".")
    tensor = f"tensor(({batch}, {size}, {size}), ({size * size}, {size}, 1), torch.float32)"
    return {
        "operator": operator, "verdict": verdict, "calls": calls,
        "phases": {"forward": calls} if phase == "inference" else {"forward": calls, "backward": calls},
        "dtypes": ["float32"], "shapes": [f"{batch}x{size}x{size}"],
        "modules": [f"layers.{chance.randrange(12)}"],
        "call_sites": [f"transformers/models/made/modeling_made.py:{chance.randrange(40, 900)}"],
        "native_since": None, "input_bytes": 4 * batch * size * size, "output_bytes": 4 * batch * size * size,
        "reason": None if verdict == "native" else f"{operator} is not registered for MPS", "source": "registration",
        "evidence": None, "needs_macos": None, "advice": None if verdict == "native" else "Move this part to the CPU.",
        "examples": [] if verdict == "native" else [
            f"torch.ops.aten.{packet}.{overload or 'default'}({tensor}, {dim})" for dim in range(chance.randrange(1, 4))
        ],
    }  # fmt: skip


def report(
    name: str,
    phase: str,
    release: str,
    operators: list[dict[str, Any]],
    seed: int,
    advisories: Sequence[dict[str, Any]],
) -> dict[str, Any]:
    """A report of one release, with what is read of it here."""
    return {
        "kind": "coverage", "schema_version": 1, "method": "predicted", "environment": ENVIRONMENT,
        "workload": {"name": name, "phase": phase}, "target": {"backend": "mps", "torch": release},
        "summary": {"operators": 40 + len(operators), "calls": 900}, "operators": operators,
        "advisories": list(advisories), "failure": None,
        "memory": {"peak_bytes": seed * 10**6, "allocated_bytes": seed * 10**6, "reserved_bytes": seed * 10**6},
    }  # fmt: skip


def rows(models: int, releases: Sequence[str], seed: int = 21) -> Iterator[Row]:
    """As many models with both phases; some cannot be judged, some stop."""
    chance = random.Random(seed)
    operators = [*missed()]
    served = [one for one in operators if missed()[one][-1] == "native"]
    common = [*chance.sample(served, 50), *chance.sample(operators, 6)]
    natives = [finding("aten::mm", "native", 9, "inference", chance)]
    names: dict[str, None] = {}
    while len(names) < models:
        names["hf:" + "".join(chance.sample(SYLLABLES, chance.randrange(2, 4)))] = None
    for number, name in enumerate(names):
        head = f"{name}/{name[3:].title()}ForCausalLM" if number % 9 == 8 else name
        called = [*chance.sample(common, chance.randrange(4)), *chance.sample(operators, chance.random() < 0.2)]
        for phase in PHASES:
            if number % 97 == 96:
                yield Row(head, "real", phase, "float32", "failed", "its process ended with exit code 137", made=MADE)
                continue
            mine = called if phase == "inference" else [*called, *chance.sample(common, chance.randrange(2))]
            found = {one: [finding(one, verdict, 12, phase, chance) for verdict in ("native", "missing", "fallback",
                     "unsupported", "unknown", "composite")] for one in dict.fromkeys(mine)}  # fmt: skip
            known = [one for one in ADVISORIES if chance.random() < 0.2]
            yield Row(
                head, "real", phase, "float32", "answered", seconds=3.0, made=MADE, parameters=10**6 * (number + 1),
                architecture=f"{name[3:].title()}Model",
                answer=pack(
                    {
                        release: report(
                            head, phase, release, [*natives, *(_of(found[one], one, index) for one in found)],
                            number + 1, _advised(known, release),
                        )
                        for index, release in enumerate(RELEASES) if release in releases
                    },
                    {release: {str(n * GIB): "fits" if n * 5 > number / 10 else "raises" for n in (8, 16, 24, 64)}
                     for release in releases},
                ),
            )  # fmt: skip


def _of(findings: list[dict[str, Any]], operator: str, index: int) -> dict[str, Any]:
    verdict = missed()[operator][index]
    return next((one for one in findings if one["verdict"] == verdict), findings[0])


def _advised(known: Sequence[tuple[str, str, list[str], str, str | None]], release: str) -> list[dict[str, Any]]:
    version = [int(part) for part in release.split(".")]
    return [
        {"id": name, "title": title, "chips": chips, "calls": 3, "workaround": "Upgrade.", "operators": ["aten::mm"]}
        for name, title, chips, since, fixed in known
        if [*map(int, since.split("."))] <= version and (fixed is None or version < [*map(int, fixed.split("."))])
    ]


def made_store(path: Path, models: int = 600, releases: Sequence[str] = RELEASES) -> Path:
    """A store of made-up models."""
    about = {"versions": VERSIONS, "tables": "ab", "releases": list(releases), "plan": {}}
    with WritableStore(path, about) as store:
        for row in rows(models, releases):
            store.add(row)
    return path
