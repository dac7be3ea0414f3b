"""A large store to try things with, made up of operators that releases really miss."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from mpsprobe.environment import collect_environment
from mpsprobe_atlas.answers import pack
from mpsprobe_atlas.store import Key, Row, WritableStore
from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY

RELEASES = (*MPS_FAMILY.releases, *(f"2.{minor}.0" for minor in range(16, 24)))
"""As many as there will be in a few years; those to come are like the newest."""
PHASES = ("inference", "training")
VERDICTS = ("native", "missing", "fallback", "unsupported", "unknown", "composite")
MADE = "2026-11-22T20:00:00+00:00"
ENVIRONMENT = collect_environment().model_dump(mode="json")
VERSIONS = {"mpsprobe": "0.1.0", "torch": "2.13.0", "transformers": "5.23.0"}
ADVISORIES = (
    ("conv-strided-weight", "A convolution reads a weight that is not contiguous as if it were", [], "2.5.0", "2.14.0"),
    ("bmm-long-reduction", "Batched products over many elements add memory on M1 and M2", ["m1"], "2.13.0", "2.23.0"),
    ("softplus-strided", "Softplus of a permuted tensor is wrong before macOS 15", [], "2.4.0", "2.15.0"),
)
SYLLABLES = ("al", "ber", "con", "de", "fal", "hy", "lla", "mo", "ne", "phi", "qwen", "ro", "sam", "t5", "vit")


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


def finding(operator: str, verdict: str, chance: random.Random) -> dict[str, Any]:
    """One as reports have it, with calls of it."""
    size, batch = chance.choice((64, 128, 512, 768, 1024)), chance.choice((1, 2, 8))
    packet, _, overload = operator.removeprefix("aten::").partition(".")
    tensor = f"tensor(({batch}, {size}, {size}), ({size * size}, {size}, 1), torch.float32)"
    call = f"torch.ops.aten.{packet}.{overload or 'default'}({tensor}, {{}})"
    fine = verdict == "native"
    return {
        "operator": operator, "verdict": verdict, "calls": 12, "native_since": None,
        "dtypes": ["float32"], "shapes": [f"{batch}x{size}x{size}"], "modules": [f"layers.{chance.randrange(12)}"],
        "call_sites": [f"transformers/models/made/modeling_made.py:{chance.randrange(40, 900)}"],
        "reason": None if fine else f"{operator} is not registered for MPS",
        "advice": None if fine else "Move this part to the CPU.",
        "examples": [] if fine else [call.format(dim) for dim in range(chance.randrange(1, 4))],
    }  # fmt: skip


def report(operators: Sequence[dict[str, Any]], size: int, advisories: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is read here of a report of one release."""
    return {
        "environment": ENVIRONMENT,
        "operators": list(operators),
        "summary": {"operators": 40 + len(operators), "calls": 900},
        "advisories": list(advisories),
        "failure": None,
        "memory": {"allocated_bytes": size * 10**6},
    }


def rows() -> Iterator[Row]:
    """600 models with both phases; some cannot be judged, some stop."""
    chance = random.Random(21)
    operators = [*missed()]
    served = [one for one in operators if missed()[one][-1] == "native"]
    common = [*chance.sample(served, 50), *chance.sample(operators, 6)]
    native = finding("aten::mm", "native", chance)
    names: dict[str, None] = {}
    while len(names) < 600:
        names["hf:" + "".join(chance.sample(SYLLABLES, chance.randrange(2, 4)))] = None
    for number, name in enumerate(names):
        head = f"{name}/{name[3:].title()}ForCausalLM" if number % 9 == 8 else name
        called = [*chance.sample(common, chance.randrange(4)), *chance.sample(operators, chance.random() < 0.2)]
        fits = {str(gb * 2**30): "fits" if gb * 5 > number / 10 else "raises" for gb in (8, 16, 24, 64)}
        for phase in PHASES:
            key = Key(head, "real", phase, "float32")
            if number % 97 == 96:
                yield Row(*key, state="failed", error="its process ended with exit code 137", made=MADE)
                continue
            mine = called if phase == "inference" else [*called, *chance.sample(common, chance.randrange(2))]
            found = {one: {verdict: finding(one, verdict, chance) for verdict in VERDICTS} for one in mine}
            known = [one for one in ADVISORIES if chance.random() < 0.2]
            reports = {}
            for index, release in enumerate(RELEASES):
                met = [one.get(missed()[operator][index], one["native"]) for operator, one in found.items()]
                advised = [
                    {"id": name, "title": title, "chips": chips, "calls": 3, "workaround": "Upgrade."}
                    for name, title, chips, since, fixed in known
                    if RELEASES.index(since) <= index < RELEASES.index(fixed)
                ]
                reports[release] = report([native, *met], number + 1, advised)
            yield Row(
                *key,
                state="answered",
                seconds=3.0,
                made=MADE,
                architecture=f"{name[3:].title()}Model",
                parameters=10**6 * (number + 1),
                answer=pack(reports, dict.fromkeys(RELEASES, fits)),
            )


def made_store(path: Path) -> Path:
    """A store of made-up models."""
    with WritableStore(path, {"versions": VERSIONS, "releases": list(RELEASES), "plan": {}}) as store:
        for row in rows():
            store.add(row)
    return path
