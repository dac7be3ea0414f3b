"""A test that leaves its process changed fails and is named, and what a machine lacks leaves out whole folders."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import left_out
from tests.forking import run_module

# What a test leaves changed, and what its failure then says.
LEAVING = """
import colorsys, importlib, logging, os, signal, sys, types
import torch
from torch.utils._python_dispatch import TorchDispatchMode

class Through(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))

def test_nothing(): import this

def test_environment(): os.environ["LEFT"] = "1"  # says: the variable LEFT
def test_folder(tmp_path): os.chdir(tmp_path)  # says: the working folder
def test_signal(): signal.signal(signal.SIGTERM, print)  # says: the handler of SIGTERM
def test_path(): sys.path.append("left")  # says: sys.path (left)
def test_root_logger(): logging.getLogger().setLevel(logging.ERROR)  # says: the level of the root logger
def test_dtype():  # says: torch's default dtype (torch.float32 before, torch.float64 after)
    torch.set_default_dtype(torch.float64)
def test_device(): torch.set_default_device("meta")  # says: torch's default device
def test_grad(): torch.set_grad_enabled(False)  # says: torch's grad mode
def test_threads(): torch.set_num_threads(torch.get_num_threads() + 1)  # says: torch's number of threads
def test_deterministic(): torch.use_deterministic_algorithms(True)  # says: torch's deterministic algorithms
def test_mode(): Through().__enter__()  # says: torch's dispatch modes
def test_replaced_module(): sys.modules["json"] = types.ModuleType("json")  # says: sys.modules['json']
def test_removed_module(): del sys.modules["colorsys"]  # says: sys.modules['colorsys']
def test_made_up_module(): sys.modules["pynvml"] = types.ModuleType("pynvml")  # says: sys.modules['pynvml']
def test_barred_module(): sys.modules["torchaudio"] = None  # says: sys.modules['torchaudio']

def test_temporary_module(tmp_path, monkeypatch):  # says: sys.modules['short_lived']
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "short_lived.py").write_text("")
    importlib.import_module("short_lived")

def test_remembered(monkeypatch):  # says: torch.backends.mps.is_available(), which remembers
    real = torch._C._mps_is_available()
    torch.backends.mps.is_available.cache_clear()
    monkeypatch.setattr("torch._C._mps_is_available", lambda: not real)
    torch.backends.mps.is_available()

def test_imported_beside_a_fake(monkeypatch):  # says: imported while torchaudio was made up
    monkeypatch.setitem(sys.modules, "torchaudio", types.ModuleType("torchaudio"))
    import snowballstemmer

def test_put_back(monkeypatch, tmp_path):
    monkeypatch.setenv("LEFT", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "json", types.ModuleType("json"))
    with torch.no_grad():
        logging.getLogger("mine").setLevel(logging.ERROR)

def test_the_last_of_the_file(): pass  # says: Fixtures of this file do not leave as it was: the handler of SIGTERM
"""
SHARED = """
import pytest, torch

@pytest.fixture(scope="module")
def doubles():
    torch.set_default_dtype(torch.float64)

def test_first(doubles): pass
def test_last(doubles): pass  # says: Fixtures of this file do not leave as it was: torch's default dtype
"""


def test_what_is_left_changed_is_named_with_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_each.py").write_text(LEAVING, encoding="utf-8")
    (tmp_path / "test_shared.py").write_text(SHARED, encoding="utf-8")
    options = ["-p", "tests.left_as_found", "-p", "no:randomly", "-p", "no:cacheprovider", "-rE", "--tb=line"]
    variables = {"COLUMNS": "500", "CI": "1"}
    ended = run_module("pytest", *options, cwd=tmp_path, plugin_folders=[left_out.ROOT], variables=variables)
    found = dict(re.findall(r"^ERROR \S+::(\w+) - (.*)$", ended.stdout, flags=re.MULTILINE))
    wanted = dict(re.findall(r"^def (\w+).*# says: (.*)$", LEAVING + SHARED, flags=re.MULTILINE))
    assert found.keys() == wanted.keys(), ended.stdout
    assert not {test: found[test] for test, said in wanted.items() if said not in found[test]}


def test_each_folder_is_there_and_has_tests() -> None:
    folders = [left_out.ROOT / folder for need in left_out.NEEDS for folder in need.folders]
    assert not [str(folder) for folder in folders if not list(folder.rglob("test_*.py"))]


def test_the_words_name_folders_and_what_they_need(monkeypatch: pytest.MonkeyPatch) -> None:
    lacking = left_out.Need("lamp", lambda: None, ("plugins/a", "plugins/b"))
    monkeypatch.setattr(left_out, "NEEDS", (lacking, left_out.Need("table", lambda: True, ("plugins/c",))))
    assert left_out.in_words() == "Left out on this machine: plugins/a, plugins/b (no lamp)."
    assert left_out.left_out() == {left_out.ROOT / f"plugins/{one}": "lamp" for one in "ab"}
