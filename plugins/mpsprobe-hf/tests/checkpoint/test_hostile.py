"""Files that somebody made to harm, or that were damaged: a plain error, in little memory, and nothing is run."""

from __future__ import annotations

import io
import json
import os
import pickle
import struct
import sys
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import made_checkpoints as made
import pytest
import torch

from mpsprobe.errors import WorkloadError
from mpsprobe_hf.checkpoint.build import read_checkpoint
from mpsprobe_hf.transformers.checkpoint_files import check_weights

MOST_MEMORY = 150 * 2**20
"""Bytes of Python's objects."""
ONE: made.Tensors = {"a": ("F32", [2])}


def read(path: Path) -> str:
    """What the error says and what to do; empty where it is read."""
    tracemalloc.start()
    try:
        read_checkpoint(str(path), path, "2.13.0")
    except WorkloadError as error:
        assert error.hint and error.message.isprintable() and len(error.message) < 600
        return str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < MOST_MEMORY
    return ""


def raw(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def one(offsets: list[int], dtype: str = "F32", shape: object = (2,)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def refused(path: Path, cases: Iterable[tuple[Callable[[Path], object], str]]) -> list[tuple[str, str]]:
    """Of each case what was to be said, and what was said instead; ``cases`` write the file."""
    wrong = []
    for make, says in cases:
        make(path)
        found = read(path)
        wrong += [] if says in found and bool(says) == bool(found) else [(says, found)]
    return wrong


def test_headers_of_safetensors(tmp_path: Path) -> None:
    cases: list[tuple[object, int, str]] = [
        ({"a": one([0, 8])}, 7, "cut off"),
        ({"a": one([0, 8])}, 9, "damaged"),
        ({"a": one([0, 8]), "b": one([4, 12])}, 12, "overlap"),
        ({"a": one([8, 16])}, 16, "gap"),
        ({"a": one([0, 2**62])}, 8, "is damaged"),
        ({"a": one([0, 8], shape=[2**40, 2**40])}, 8, "impossible"),
        ({"a": one([0, 8], shape=[-2, -1])}, 8, "impossible"),
        ({"a": one([0, 8], shape=[2.0])}, 8, "impossible"),
        ({"a": one([0, 8], shape="two")}, 8, "impossible"),
        ({"a": one([0, 8], dtype="F33")}, 8, "does not describe"),
        ({"a": [1]}, 8, "does not describe"),
        ([1], 8, "not an object"),
    ]
    made_of = [(partial(made.with_header, header=header, size=size), says) for header, size, says in cases]
    assert not refused(tmp_path / "m.safetensors", made_of)


def test_starts_of_safetensors(tmp_path: Path) -> None:
    cases = [
        (b"", "no header"),
        (b"\0" * 7, "no header"),
        (struct.pack("<Q", 2**63) + b"{}", "cut off"),
        (struct.pack("<Q", 100_000) + b"[" * 100_000, "nested too deeply"),
        (struct.pack("<Q", 5010) + b'{"a": ' + b"1" * 5003 + b"}", "a number of 5,003 digits"),
        (struct.pack("<Q", 2) + b"\xff\xfe", "not valid JSON"),
        (struct.pack("<Q", 12_000_000) + b"[1]," * 3_000_000, "more than 4,000,000 values"),
        (struct.pack("<Q", 33 * 2**20) + bytes(33 * 2**20), "more than any needs"),
    ]
    assert not refused(tmp_path / "m.safetensors", [(partial(raw, data=data), says) for data, says in cases])


def test_gguf(tmp_path: Path) -> None:
    cases: list[tuple[Callable[[Path], object], str]] = [
        (lambda path: made.gguf(path, [], counts=(2**63, 0)), "cut off or damaged"),
        (lambda path: made.gguf(path, [], counts=(0, 2**63)), "cut off or damaged"),
        (lambda path: made.gguf(path, [("a", [8], 0, 0)], size=31), "cut off"),
        (lambda path: made.gguf(path, [("a", [8], 0, 2**62)], size=32), "cut off"),
        (lambda path: made.gguf(path, [("a", [8], 0, 0), ("b", [8], 0, 16)], size=64), "overlap"),
        (lambda path: made.gguf(path, [("a", [2**40, 2**40], 0, 0)], size=64), "impossible"),
        (lambda path: made.gguf(path, [("a", [1] * 9, 0, 0)], size=64), "dimensions"),
        (lambda path: made.gguf(path, [("a", [255], 12, 0)], size=256), "whole blocks"),
        (lambda path: made.gguf(path, [("a", [32], 142, 0)], size=64), "not known here (142)"),
        (lambda path: made.gguf(path, [], [made.pair("k", 9, struct.pack("<IQ", 9, 1))]), "array of an unknown type"),
        (lambda path: made.gguf(path, [], [made.pair("k", 9, struct.pack("<IQ", 8, 2**61))]), "cut off or damaged"),
        (lambda path: made.gguf(path, [], [made.pair("k", 8, struct.pack("<Q", 2**63))]), "cut off or damaged"),
        (lambda path: made.gguf(path, [], [made.pair("general.alignment", 4, b"\0" * 4)]), "alignment"),
        (lambda path: raw(path, b"GGUF" + struct.pack(">IQQ", 3, 0, 0)), "big-endian"),
        (lambda path: raw(path, b"GGUF" + struct.pack("<IQQ", 99, 0, 0)), "version 99"),
        (lambda path: made.gguf(path, [], counts=(200_001, 0), size=200_001 * 24), "more than any model"),
        (lambda path: raw(path, b"GGML" + bytes(40)), "not a GGUF file"),
    ]
    assert not refused(tmp_path / "m.gguf", cases)


def zipped(path: Path, data: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("m/data.pkl", data)
    return path


def not_deflated(path: Path) -> Path:
    """A zip file whose pickle claims to be compressed, and is no stream of zlib's."""
    data = zipped(path, PROTO + b"." * 40, zipfile.ZIP_DEFLATED).read_bytes()
    begin = data.index(b"data.pkl") + len(b"data.pkl")
    return raw(path, data[:begin] + b"\xff" * 8 + data[begin + 8 :])


PROTO, STOP = b"\x80\x02", b"."
DOUBLED = PROTO + b"K\x01" + b"2\x86" * 60 + STOP
"""A tuple of two equal tuples, sixty times: 2**60 leaves for whoever hashes or prints it."""


def test_pickles(tmp_path: Path) -> None:
    cases = [
        (PROTO + b"(" * 5000 + STOP, "nested too deeply"),
        (PROTO + b"\x86" + STOP, "not a whole pickle"),
        (PROTO + b"h\x07" + STOP, "not a whole pickle"),
        (PROTO + b"K", "not a whole pickle"),
        (PROTO + b"X\xff\xff\xff\x7fabc" + STOP, "not a whole pickle"),
        (PROTO + b"I" + b"9" * 5000 + b"\n" + STOP, "not a whole pickle"),
        (b"\xff\xff", "not a whole pickle"),
        (PROTO + b"K\x01\x97" + STOP, "its opcode NEXT_BUFFER"),
        (DOUBLED, ""),
        (PROTO + b"}" + DOUBLED[2:-1] + b"K\x01s" + STOP, ""),  # as a key, which nobody hashes
    ]
    made_of = [(partial(make, data=data), says) for make in (zipped, raw) for data, says in cases]
    assert not refused(tmp_path / "m.bin", [*made_of, (not_deflated, "cut off or damaged")])


def test_a_pickle_of_more_opcodes_than_any_checkpoint_has(tmp_path: Path) -> None:
    path = raw(tmp_path / "m.bin", PROTO + b"]" * 3_000_000 + STOP)
    with pytest.raises(WorkloadError, match="more than 2,000,000 opcodes"):  # the measure of memory is slow here
        read_checkpoint("m", path, "2.13.0")


def test_what_a_pickle_would_run_is_named_and_not_run(tmp_path: Path) -> None:
    mark = tmp_path / "it ran"

    class Harm:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return os.mkdir, (str(mark),)

    torch.save({"weight": torch.zeros(3), "more": Harm()}, tmp_path / "m.pt")
    made.safetensors(tmp_path / "unused.safetensors", ONE)
    report = read_checkpoint("m", tmp_path / "m.pt", "2.13.0")
    assert [one.name for one in report.imports if one.kind == "code"] == [f"{os.mkdir.__module__}.mkdir"]
    assert "Do not load it" in report.advice[0] and report.parameters == 3
    raw(tmp_path / "old.bin", pickle.dumps(Harm(), protocol=0))
    assert read_checkpoint("m", tmp_path / "old.bin", "2.13.0").imports[0].kind == "code"
    assert not mark.exists()


@pytest.mark.parametrize(("opcode", "named"), [(b"\x97", "NEXT_BUFFER"), (b"\xff", repr(b"\xff"))])
@pytest.mark.parametrize("whole", [True, False])
def test_an_unknown_opcode_ends_the_reading_with_what_was_found(
    tmp_path: Path, opcode: bytes, named: str, whole: bool
) -> None:
    torch.save({"a": torch.zeros(3), "b": torch.ones(2)}, tmp_path / "m.pt", _use_new_zipfile_serialization=False)
    data = (tmp_path / "m.pt").read_bytes()
    at = data.rindex(b"u.") if whole else data.index(b"X\x01\x00\x00\x00b")
    report = read_checkpoint("m", raw(tmp_path / "m.pt", data[:at] + opcode + data[at:]), "2.13.0")
    assert report.parameters == (5 if whole else 3)
    assert "torch._utils._rebuild_tensor_v2" in [one.name for one in report.imports]
    assert report.notes == [f"'m.pt' is read up to the opcode {named}, which torch does not write"]
    header = data.index(b"M\xe9\x03.")  # the version of the format
    assert "header is damaged" in read(raw(tmp_path / "m.pt", data[:header] + opcode + data[header:]))


def test_zip_files(tmp_path: Path) -> None:
    bomb = zipped(tmp_path / "bomb.pt", b"]" * (80 * 2**20), zipfile.ZIP_DEFLATED)
    assert bomb.stat().st_size < 2**20 and "more than" in read(bomb)
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("hello.txt", "hello")
    assert "no data.pkl" in read(tmp_path / "other.pt")
    torch.save({"a": torch.zeros(1000)}, tmp_path / "m.pt")
    data = (tmp_path / "m.pt").read_bytes()
    assert "cut off" in read(raw(tmp_path / "cut.pt", data[:2000]))
    for mark, place, kind in ((b"PK\x06\x06", 40, "<Q"), (b"PK\x05\x06", 12, "<I")):
        plain = data if kind == "<Q" else (tmp_path / "other.pt").read_bytes()  # torch writes the longer form
        at = plain.rfind(mark) + place
        large = plain[:at] + struct.pack(kind, 2**31) + plain[at + struct.calcsize(kind) :]
        assert "list of files" in read(raw(tmp_path / "large.pt", large))
    stream = io.BytesIO()
    with zipfile.ZipFile(tmp_path / "m.pt") as old, zipfile.ZipFile(stream, "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name)[:100] if "/data/" in name else old.read(name))
    assert "is not whole" in read(raw(tmp_path / "short.pt", stream.getvalue()))


def test_an_index_that_leads_out_of_the_folder_or_is_none(tmp_path: Path) -> None:
    made.safetensors(tmp_path / "outside.safetensors", ONE)
    inner = tmp_path / "inner"
    inner.mkdir()
    for index, says in (
        ({"weight_map": {"a": "../outside.safetensors"}}, "has an index"),
        ({"weight_map": {"a": "/etc/passwd"}}, "has an index"),
        ({"weight_map": {"a": "C:\\x.safetensors"}}, "has an index"),
        ({"weight_map": {"a": "a/../../x.safetensors"}}, "has an index"),
        ({"weight_map": {"a": "..\\x.safetensors"}}, "has an index"),
        ({"weight_map": {"a": ""}}, "has an index"),
        ({"weight_map": {"a": "\ud800.safetensors"}}, "which no file can have"),
        *((one, "") for one in ([], {}, {"weight_map": 3}, {"weight_map": {"a": 3}}, {"weight_map": {"a": "x.txt"}})),
    ):
        (inner / "model.safetensors.index.json").write_text(json.dumps(index), encoding="utf-8")
        assert says in (said := read(inner)) and said, index


def test_weights_that_an_index_names_are_files(tmp_path: Path) -> None:
    made.safetensors(tmp_path / "a.safetensors", ONE)
    (tmp_path / "b.safetensors").mkdir()  # or a pipe, for which safetensors would wait
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"a": "b.safetensors"}}')
    with pytest.raises(WorkloadError, match=r"has no file b\.safetensors, which model\.safetensors\.index\.json names"):
        check_weights(tmp_path)


def test_links_that_lead_out_of_the_folder(tmp_path: Path) -> None:
    outside = made.safetensors(tmp_path / "outside.safetensors", ONE)
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "model.safetensors").symlink_to(outside)
    assert "leads out of the folder" in read(inner) and str(outside) in read(inner)
    (inner / "model.safetensors").unlink()
    (inner / "model.safetensors").symlink_to("model.safetensors")
    assert read(inner)
    (inner / "model_index.json").write_text(json.dumps({"unet": ["diffusers", "X"]}), encoding="utf-8")
    (inner / "unet").symlink_to(tmp_path)
    assert "leads out of the folder" in read(inner)


def test_what_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "holds no weights" in read(tmp_path)
    assert "is no checkpoint" in read(raw(tmp_path / "a.txt", b"hello"))
    assert "is no checkpoint" in read(raw(tmp_path / "empty", b""))
    (tmp_path / "inner").mkdir()
    made.safetensors(tmp_path / "inner" / "model.safetensors", ONE)
    assert str(tmp_path / "inner") in read(tmp_path)
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.safetensors")
        assert "not a regular file" in read(tmp_path / "pipe.safetensors")
    if sys.platform == "linux":  # it opens, and fails while it is read
        assert "Input/output error" in read(Path("/proc/self/mem"))

    def refuse(_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", refuse)
    assert "Permission denied" in read(tmp_path)
