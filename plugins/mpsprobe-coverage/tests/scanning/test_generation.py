"""``--phase generate``: which calls are prefill, decode and sampling, and what tokens are chosen from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from made_workloads import Made, calling, calls, finding, scan, scan_many

from mpsprobe.errors import WorkloadError
from mpsprobe.protocols import TorchRun
from mpsprobe_coverage.scanning.generation import ASSUMPTION, SCORES

VOCABULARY = 40
END = 1


class Cache:
    """What generating models keep, as far as it is looked at."""

    def get_seq_length(self) -> int:
        return 0


class Writer(torch.nn.Module):
    """An encoder, a decoder with a cache, and a loop that chooses tokens."""

    # What the latest one wrote in each run; those that search for releases may be cut short.
    # It is no attribute of the model: those are put back after each run.
    runs: ClassVar[list[list[int]]] = []

    def __init__(self, choose: Any) -> None:
        super().__init__()
        self.encoder, self.head, self.choose = torch.nn.Linear(4, 4), torch.nn.Linear(4, VOCABULARY), choose
        self.runs.clear()

    def forward(self, x: torch.Tensor, cache: Any = None) -> Any:
        return SimpleNamespace(logits=self.head(x.tanh()))

    def generate(self, x: torch.Tensor, tokens: int) -> None:
        memory, cache, end = self.encoder(x), Cache(), torch.tensor([END], device=x.device)
        self.runs.append([])
        for _ in range(tokens):
            token = self.choose(self(memory, cache=cache).logits[:, -1])
            self.runs[-1].append(int(token[0]))
            if torch.isin(token, end).all():
                break


class Writing(Made):
    """A workload of ``Writer`` on one sample of two positions, which writes three tokens: the likeliest ones."""

    def __init__(self, choose: Any = lambda scores: scores.argmax(-1)) -> None:
        self.model = Writer(choose)
        super().__init__(lambda: TorchRun(self.model, (torch.ones(1, 2, 4),), call=self.call))

    @staticmethod
    def call(model: Any, args: Any, kwargs: Any) -> None:
        model.generate(*args, tokens=3)


def test_operators_are_told_apart_by_phase() -> None:
    report = scan(Writing(), "2.13.0", phase="generate")
    assert finding(report, "linear").phases == {"prefill": 2, "decode": 2}  # the encoder; the head at each step
    assert calls(report, "prefill").keys() == calls(report, "decode").keys() == {"linear", "tanh"}
    sampling = calls(report, "sampling")
    assert [count for name, count in sampling.items() if name.startswith("argmax")] == [3]
    assert not {"linear", "tanh"} & sampling.keys()
    assert report.workload.phase == "generate" and report.failure is None


def test_tokens_come_from_scores_that_are_made_up_and_noted() -> None:
    made = Writing()
    report = scan(made, "2.13.0", phase="generate")
    assert len(set(made.model.runs[0])) == 3
    assert all(VOCABULARY // 2 <= token < VOCABULARY // 2 + 7 for token in made.model.runs[0])
    (assumed,) = report.data_dependence
    assert (assumed.operator, assumed.assumed, assumed.calls) == (SCORES, ASSUMPTION, 3)
    assert assumed.call_sites[0].rpartition(":")[0].endswith("test_generation.py")


@pytest.mark.parametrize(
    ("choose", "operator", "before", "since"),
    [
        (lambda scores: scores.argmax(-1), "isin.Tensor_Tensor_out", "2.3.1", "2.4.0"),
        (lambda scores: torch.std_mean(scores, -1)[0].long(), "std_mean.correction", "2.2.2", "2.3.0"),
        (lambda scores: scores.softmax(-1).cumsum(-1).argmax(-1), "cumsum.out", "1.13.1", "2.0.0"),
        (lambda scores: scores.softmax(-1).multinomial(1)[:, 0], "multinomial", "1.12.1", "1.13.0"),
    ],
)
def test_what_releases_lack_for_choosing_tokens(choose: Any, operator: str, before: str, since: str) -> None:
    found = finding(scan(Writing(choose), before, phase="generate"), operator)
    assert (found.verdict, found.native_since, set(found.phases)) == ("missing", since, {"sampling"})
    matrix = scan_many(Writing(choose), [before, since], phase="generate")
    assert [f"aten::{operator}" in cell.findings for cell in matrix.releases] == [True, False]


def test_real_weights_choose_the_tokens_themselves() -> None:
    made, x = Writing(), torch.ones(1, 2, 4)
    with torch.no_grad():
        likeliest = int(made.model(made.model.encoder(x)).logits[0, -1].argmax())
    report = scan(made, "2.13.0", phase="generate", weights=True)
    assert made.model.runs[0] == [likeliest] * 3 and not report.data_dependence


def test_generation_that_ends_at_once_is_noted() -> None:
    report = scan(Writing(lambda scores: torch.full((1,), END, device=scores.device)), "2.13.0", phase="generate")
    assert report.workload.notes == ["generate() called the model once: nothing was decoded"]


def test_a_workload_that_does_not_generate() -> None:
    with pytest.raises(WorkloadError, match="does not say how Calls generates") as caught:
        scan(calling(), "2.13.0", phase="generate")
    assert "model.generate" in str(caught.value.hint)
