"""Which open name space a name belongs to."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpsprobe.errors import WorkloadError
from mpsprobe_hf.auto_models.names import PUBLISHED, declare
from mpsprobe_hf.plugin import mpsprobe_resolve_workload

TYPES, CHECKPOINTS = "mpsprobe_hf.auto_models.model_types:load", "mpsprobe_hf.auto_models.checkpoints:load"


def test_forms() -> None:
    targets = {
        "hf:bert": TYPES,
        "hf:bert/BertForMaskedLM": TYPES,
        "hf:org/name": TYPES,
        "hf:": TYPES,
        "org/name": CHECKPOINTS,
        "google-bert/bert-base-uncased": PUBLISHED,
        "hf:Qwen/Qwen3-0.6B": PUBLISHED,
        "bert-bsae": None,
        "a/b/c": None,
        "": None,
        "org/na me": None,
        "models/mine.py": None,
        "/models/mine.py:make": None,
        "C:\\models\\mine.PY:make": None,
        "org/name\x1b[31m": None,
    }
    for name, target in targets.items():
        found = declare(name)
        assert (found and found.target) == target, name
        assert mpsprobe_resolve_workload(name) == found


def test_folder_wins_over_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    found = declare("org/name")
    assert found is not None and found.family == "checkpoint"


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    for prefix in ("./", "../", "/", "~/", "C:\\", "..\\"):
        with pytest.raises(WorkloadError, match="no checkpoint folder"):
            declare(f"{prefix}no-such-folder-anywhere")
    (tmp_path / "checkpoint-500").mkdir()
    (tmp_path / "config.json").write_text("{}", "utf-8")
    for name, hint in (("checkpoint-50", "checkpoint-500"), ("config.json", "It is a file")):
        with pytest.raises(WorkloadError) as caught:
            declare(str(tmp_path / name))
        assert hint in str(caught.value.hint)


@given(st.text(max_size=60))
def test_any_text_is_answered(name: str) -> None:
    try:
        found = declare(name)
    except WorkloadError as error:
        assert str(error).count("\n") <= 1
    else:
        assert found is None or found.name == name
