"""``mpsprobe upgrade`` asks the atlas for the workloads that it holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mpsprobe_atlas.answering import VARIABLE
from mpsprobe_devkit.testing import run_cli


@pytest.mark.parametrize(("old", "new"), [("2.6.0", "2.15.0"), ("2.15.0", "2.6.0")])
def test_from_the_atlas(old: str, new: str, real: Path) -> None:
    name = "hf:wav2vec2/Wav2Vec2ForCTC"
    asked = ("--phase", "training", "--size", "small", "--atlas", "--no-cache", "--format", "json")
    result = run_cli("upgrade", old, new, name, *asked, variables={VARIABLE: str(real)}, process=False)
    assert result.code == 0, result.stderr
    [one] = json.loads(result.stdout)["workloads"]
    missing = {"aten::_ctc_loss": "missing", "aten::_ctc_loss_backward": "missing"}
    found = {one[side]["target"]["torch"]: one[side]["findings"] for side in ("old", "new")}
    assert found == {"2.6.0": missing, "2.15.0": {}} and one["old"]["target"]["torch"] == old


def test_what_it_does_not_hold_is_an_error_where_it_is_asked_for(real: Path) -> None:
    asked = ("2.6.0", "2.15.0", "hf:gpt2", "--size", "small", "--atlas", "--format", "json")
    result = run_cli("upgrade", *asked, variables={VARIABLE: str(real)}, process=False)
    assert result.code == 2
    assert "the atlas holds no answer about hf:gpt2" in json.loads(result.stdout)["workloads"][0]["error"]
