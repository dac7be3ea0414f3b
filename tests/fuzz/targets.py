"""What is attacked: each target makes the case of a number, and lets the product read it."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import json
import pickletools
import shutil
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

from mpsprobe.errors import MpsprobeError
from tests.fuzz.changing import NUMBERS, TEXTS, bytes_changed, document_changed

ROOT = Path(__file__).resolve().parents[2]
RECORDED = "plugins/mpsprobe-devices/tests/traces/data/cuda.pt.trace.json.gz"
Attack = Callable[[Random], None]  # one case; raises what the product must not raise


def reports(folder: Path) -> Attack:
    """Reports of every kind: read; one in fifty of those that can be is written in every format and compared too."""
    from mpsprobe.cli.functions import compare
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe.schemas.report import parse_report
    from mpsprobe_devkit.testing import sample_reports

    samples = [json.loads(one.model_dump_json()) for one in sample_reports().values()]
    texts = [json.dumps(one).encode() for one in samples]
    registry = get_registry()
    path = folder / "report.json"

    def attack(random: Random) -> None:
        text = json.dumps(document_changed(random.choice(samples), random)).encode()
        if random.random() < 0.2:
            text = bytes_changed(random.choice(texts), random)
        with suppress(MpsprobeError):
            report = parse_report(text)
            if random.random() < 0.02:
                for name in registry.exporters():
                    with suppress(MpsprobeError):
                        _written(registry.exporter(name), report)
                path.write_bytes(text)
                with suppress(MpsprobeError):
                    compare(str(path), str(path))

    return attack


def _written(exporter: Any, report: Any) -> None:
    for _, pieces in exporter.files(report) if hasattr(exporter, "files") else [("", exporter.render(report))]:
        list(pieces)


def traces(folder: Path) -> Attack:
    """Traces as torch.profiler writes them, plain and packed: imported."""
    from mpsprobe.engine import statistics
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe_devices.traces.report import import_trace
    from mpsprobe_devkit.testing import sample_profile_report

    exporter: Any = get_registry().exporter("chrome")
    recorded = json.loads(gzip.decompress((ROOT / RECORDED).read_bytes()))
    events = recorded["traceEvents"]
    shorter = {**recorded, "traceEvents": events[:: max(1, len(events) // 150)]}
    documents = [json.loads(exporter.render(sample_profile_report())), shorter]
    path = folder / "trace.json"

    def attack(random: Random) -> None:
        data = json.dumps(document_changed(random.choice(documents), random)).encode()
        if random.random() < 0.3:
            data = bytes_changed(data, random)
        if random.random() < 0.2:
            data = gzip.compress(data, 1)
            data = bytes_changed(data, random) if random.random() < 0.5 else data
        path.write_bytes(data)
        # Intervals of medians take most of the time, and do not depend on what a file looks like.
        with patch.object(statistics, "RESAMPLES", 20), suppress(MpsprobeError):
            import_trace(path).model_dump_json()

    return attack


def xplanes(folder: Path) -> Attack:
    """Profiles as TensorFlow writes them, bytes of the file or fields of any depth changed: imported."""
    from mpsprobe.engine import statistics
    from mpsprobe.schemas import ProfileReport
    from mpsprobe_devices.traces.report import import_trace

    made = made_module(ROOT / "plugins/mpsprobe-devices/tests/traces/made_profile.py")
    profile = made.profile()
    path = folder / "vm.xplane.pb"

    def attack(random: Random) -> None:
        data = profile
        for _ in range(random.randint(1, 4)):
            data = _field_changed(data, made.field, random)
        path.write_bytes(data if random.random() < 0.6 else bytes_changed(data, random))
        with patch.object(statistics, "RESAMPLES", 20), suppress(MpsprobeError):
            report = import_trace(path)
            assert ProfileReport.model_validate_json(report.model_dump_json()) == report

    return attack


def _field_changed(data: bytes, field: Callable[[int, int | bytes], bytes], random: Random) -> bytes:
    """``data``, a protocol buffer, with one of its fields gone, repeated or another, or one inside that field."""
    from mpsprobe_devices.traces.tensorflow import _Damaged, _fields

    try:
        fields = [
            (number, value if isinstance(value, int) else bytes(value)) for number, value in _fields(memoryview(data))
        ]
    except _Damaged:
        fields = []
    if not fields:
        return bytes_changed(data, random)
    place = random.randrange(len(fields))
    number, value = fields[place]
    if isinstance(value, bytes) and value and random.random() < 0.7:
        fields[place] = number, _field_changed(value, field, random)
    else:
        other = random.choice((number, random.randint(1, 12), 2 ** random.randint(5, 40)))
        changed = random.choice((value, abs(random.choice(NUMBERS)), random.choice(TEXTS).encode("utf-8", "replace")))
        fields[place : place + random.randint(0, 1)] = [(other, changed)] * random.choice((0, 1, 1, 2, 50))
    return b"".join(field(*one) for one in fields)


def tables(_: Path) -> Attack:
    """Kernel tables, their digests made anew for most of them: read and asked."""
    from mpsprobe_coverage.knowledge.kernels.format import TABLES, apply, to_table
    from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY
    from mpsprobe_coverage.knowledge.kernels.releases import data_folder, torch_releases

    document = json.loads((data_folder() / f"torch-{torch_releases()[0]}.table").read_bytes().partition(b"\n")[2])
    document["operators"] = {
        label: {space: " ".join(names.split(" ")[:4]) for space, names in spaces.items()}
        for label, spaces in list(document["operators"].items())[:12]
    }

    def attack(random: Random) -> None:
        body = json.dumps(document_changed(document, random)).encode()
        if random.random() < 0.2:
            body = bytes_changed(body, random)
        data = f"{TABLES.magic} {hashlib.sha256(body).hexdigest()}\n".encode() + body
        if random.random() < 0.1:
            data = bytes_changed(data, random)
        with suppress(MpsprobeError):
            file = TABLES.decode(data, "made")
            labels: dict[str, str] = {}
            apply(file.changes["operators"], labels)
            table = to_table(MPS_FAMILY, file.header, labels)
            for operator in ("aten::add.Tensor", "", *list(labels)[:3]):
                table.verdict(operator)

    return attack


def machos(folder: Path) -> Attack:
    """Libraries of macOS: what tables and facts are made of is read of them."""
    from mpsprobe_tables.builder.facts import read_facts
    from mpsprobe_tables.builder.macho import MachO
    from mpsprobe_tables.builder.registrations import read_registrations

    made_by = made_module(ROOT / "plugins/mpsprobe-tables/tests/builder/made_library.py")
    load, call, register = made_by.Load, made_by.Call, "__ZNR5torch7Library5_implEPKcONS_11CppFunctionE"
    steps = [step for name in ("add.Tensor", "mul", "sin") for step in (load(name), call("__Z3fun"), call(register))]
    functions = {made_by.initialiser("aten", "MPS"): steps, "__Z3fun": [], "__ZN2at3sinEv": [load("sin_out_mps")]}
    strings = ("one two", "add_dense_float_float")
    data = made_by.MadeLibrary(functions, strings=strings, kernels=("exp_dense_half",)).build()
    filled = [place for place, byte in enumerate(data) if byte]  # most of the file is a hole between sections
    path = folder / "library.dylib"

    def attack(random: Random) -> None:
        changed = bytearray(data)
        for _ in range(random.randint(1, 4)):
            place = random.choice(filled) + random.randint(-4, 4)
            changed[place % len(changed)] = random.choice((0, 1, 0x7F, 0xFF, random.randrange(256)))
        path.write_bytes(bytes(changed) if random.random() < 0.7 else bytes_changed(bytes(changed), random))
        with suppress(MpsprobeError):
            library = MachO(path)
            list(library.strings_containing("a"))
            for read in (lambda: read_facts(library, "2.13.0", "0" * 64), lambda: read_registrations(library)):
                with suppress(MpsprobeError):
                    read()

    return attack


def wheels(folder: Path) -> Attack:
    """Wheels of torch for Macs: bytes of the zip file, names and texts of members, and the library in it, changed."""
    from mpsprobe.progress import SilentProgress
    from mpsprobe_tables.builder.rebuild import from_files, rebuild

    made_module(ROOT / "plugins/mpsprobe-tables/tests/builder/made_library.py", "made_library")
    path = made_module(ROOT / "plugins/mpsprobe-tables/tests/builder/made_wheel.py").make_wheel(folder)
    sound = path.read_bytes()
    with zipfile.ZipFile(path) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    [library] = [name for name in members if name.endswith(".dylib")]
    [record] = [name for name in members if name.endswith("RECORD")]
    filled = [place for place, byte in enumerate(members[library]) if byte]
    texts = {name: data.decode().splitlines() for name, data in members.items() if name != library}
    (temporary := folder / "temporary").mkdir()

    def attack(random: Random) -> None:
        changed = dict(members)
        if random.random() < 0.4:
            code = bytearray(members[library])
            for _ in range(random.randint(1, 8)):
                code[random.choice(filled)] = random.choice((0, 1, 0x7F, 0xFF, random.randrange(256)))
            changed[library] = bytes(code)
        elif random.random() < 0.6:
            document = document_changed(texts, random)
            written = {str(name): lines if isinstance(lines, list) else [lines] for name, lines in document.items()}
            changed = {name: "\n".join(map(str, lines)).encode("utf-8", "replace") for name, lines in written.items()}
            changed[library] = members[library]
        if random.random() < 0.8:
            changed[record] = "".join(f"{name},,\n" for name in changed).encode("utf-8", "replace")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
            for name, data in changed.items():
                opened.writestr(zipfile.ZipInfo(name.encode("utf-8", "replace").decode()), data, zipfile.ZIP_DEFLATED)
        if changed == members or random.random() < 0.1:
            start = random.choice((0, sound.rindex(b"PK\5\6"), sound.index(b"PK\1\2")))  # the list of members, its end
            path.write_bytes(sound[:start] + bytes_changed(sound[start:], random))
        with patch.object(tempfile, "tempdir", str(temporary)), suppress(MpsprobeError):
            rebuild(from_files([str(path)]), SilentProgress())
        assert not list(temporary.iterdir())

    return attack


def checkpoints(folder: Path) -> Attack:
    """Safetensors, GGUF and pickles, bare, in an archive, and of opcodes at random: what they hold is read."""
    import torch

    from mpsprobe_hf.checkpoint.build import read_checkpoint

    made = made_module(ROOT / "plugins/mpsprobe-hf/tests/checkpoint/made_checkpoints.py")
    torch.save({"a": torch.zeros(3), "b": torch.zeros(2, dtype=torch.float16)}, folder / "0.pt")
    torch.save({"a": torch.zeros(3)}, folder / "1.pt", _use_new_zipfile_serialization=False)
    pairs = [made.pair("general.name", 8, made.text("x")), made.pair("k", 9, struct.pack("<IQ", 8, 1) + made.text("a"))]
    made.gguf(folder / "2.gguf", [("q", [256], 12, 0), ("n", [4], 0, 160)], pairs, size=192)
    header, size = made.header_of({"a": ("F32", [3]), "b": ("BF16", [2, 2])})
    made.with_header(folder / "3.safetensors", header, size)
    kinds = [(path.read_bytes(), path.suffix) for path in sorted(folder.iterdir())]
    opcodes = [op.code.encode("latin-1") for op in pickletools.opcodes]

    def attack(random: Random) -> None:
        data, suffix = random.choice(kinds)
        match random.randrange(4):
            case 0:  # the header alone, so that its numbers are reached more often
                suffix, text = ".safetensors", json.dumps(document_changed(header, random)).encode()
                data = struct.pack("<Q", len(text)) + text + bytes(size)
            case 1:
                suffix, chosen = ".bin", random.choices(opcodes, k=random.randint(1, 60))
                parts = (opcode + random.randbytes(random.choice((0, 0, 1, 2, 4, 9))) for opcode in chosen)
                data = b"\x80\x02" + b"".join(parts) + b"."
            case _:
                data = bytes_changed(data, random)
        path = folder / f"changed{suffix}"
        path.write_bytes(data)
        with suppress(MpsprobeError):
            read_checkpoint("changed", path, "2.13.0")

    return attack


def vanishing(folder: Path) -> Attack:
    """Checkpoints of which a file goes, shrinks, grows or becomes another thing at some line of what reads them."""
    import torch

    from mpsprobe_hf.checkpoint.build import read_checkpoint

    made = made_module(ROOT / "plugins/mpsprobe-hf/tests/checkpoint/made_checkpoints.py")
    kept, place = folder / "kept", folder / "read"
    for name in ("pickles", "gguf", "pipe/unet"):
        (kept / name).mkdir(parents=True)
    tensors, part = {"a": ("F32", [3]), "b": ("BF16", [2, 2])}, kept / "pipe/unet"
    made.sharded(kept / "sharded", tensors, 2, {"architectures": ["A"]})
    made.safetensors(part / "diffusion_pytorch_model.safetensors", tensors)
    (part / "config.json").write_text('{"_class_name": "U"}')
    (kept / "pipe/model_index.json").write_text('{"unet": ["diffusers", "U"]}')
    torch.save({"a": torch.zeros(3)}, kept / "pickles/pytorch_model.bin")
    made.gguf(kept / "gguf/a.gguf", [("q", [256], 12, 0)], [made.pair("general.name", 8, made.text("x"))], size=160)
    shutil.copytree(kept, place)
    lines, at, then = 0, -1, lambda: None

    def traced(frame: Any, event: str, _: object) -> Any:
        nonlocal lines
        if "mpsprobe_hf/checkpoint" not in frame.f_code.co_filename:
            return None
        if event == "line":
            lines += 1
            if lines == at:
                then()
        return traced

    def read(name: str) -> int:
        nonlocal lines
        lines = 0
        sys.settrace(traced)
        try:
            read_checkpoint(name, place / name, "2.13.0")
        except MpsprobeError:
            pass
        finally:
            sys.settrace(None)
        return lines

    longest = {one.name: read(one.name) for one in kept.iterdir()}

    def attack(random: Random) -> None:
        nonlocal at, then
        name = random.choice(sorted(longest))
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(kept, place)
        files = [one for one in sorted((place / name).rglob("*")) if one.is_file()]
        path = random.choice(files)
        data = path.read_bytes()

        def new(content: bytes) -> None:
            path.unlink()
            path.write_bytes(content)

        ways: tuple[Callable[[], object], ...] = (
            path.unlink,
            lambda: path.write_bytes(data[: random.randrange(len(data))]),
            lambda: path.write_bytes(data * 2),
            lambda: new(bytes_changed(data, random)),
            lambda: new(random.choice(files).read_bytes()),
            lambda: (path.unlink(), path.mkdir()),
            lambda: (path.unlink(), path.symlink_to(path)),
            lambda: (path.unlink(), path.symlink_to("/etc/passwd")),
            lambda: shutil.rmtree(place),
        )
        at, then = random.randint(1, longest[name]), random.choice(ways)  # type: ignore[assignment]
        read(name)

    return attack


def expectations(_: Path) -> Attack:
    """Lists of what PyTorch's own tests expect, their digests made anew: read and asked."""
    from mpsprobe_tables.encoding import seal
    from mpsprobe_tables.expectations import FILES, MAGIC, decode
    from mpsprobe_tables.own_files import DATA

    data = (DATA / FILES.name.format(FILES.releases()[0])).read_bytes()
    document = json.loads(data.partition(b"\n")[2])
    document["sections"] = {
        name: {value: " ".join(names.split(" ")[:5]) for value, names in groups.items()}
        for name, groups in document["sections"].items()
    }

    def attack(random: Random) -> None:
        with suppress(MpsprobeError):
            read = decode(seal(MAGIC, document_changed(document, random)), "made", None)
            for listed in read.sections.values():
                for entry in listed:
                    read.expected(entry, "float32")
                    read.expected(entry, "complex64", gradient=True)

    return attack


def settings(folder: Path) -> Attack:
    """``pyproject.toml``: read, and each value given to the flag that it is for."""
    from mpsprobe.settings import read_settings

    text = (
        '[tool.mpsprobe]\nstrict-plugins = true\ndisable-plugins = ["a", "b"]\n[tool.mpsprobe.coverage]\n'
        'torch = "2.13.0"\nphase = "training"\nbatch-size = 4\nfail-on = ["missing"]\n[tool.mpsprobe.profile]\n'
        'steps = 3\nprobe = "memory"\nx = {a = {b = [1, 2.5, true]}}\n'
    )
    tokens = (*TEXTS, *"[]{}=\n.", '"', "[[tool.mpsprobe]]", "1979-05-27", "nan", "0x", "tool.mpsprobe")
    path = folder / "pyproject.toml"

    def attack(random: Random) -> None:
        path.write_bytes(_with_tokens(bytes_changed(text.encode(), random), tokens, random, most=1))
        with suppress(MpsprobeError):
            read_settings(folder)

    return attack


def advisories(folder: Path) -> Attack:
    """A user's own file of advisories, made of shipped ones: read, and each entry checked."""
    from mpsprobe_coverage.knowledge.advisories import store

    entries = [part.text for part in store._texts()]
    tokens = (*TEXTS, *"[]{}=\n.", '"', "[[advisory]]", "nan", "self.dims", "divides", "tensors[*]", "aten::add.Tensor")
    path = folder / "advisories.toml"

    def attack(random: Random) -> None:
        text = "\n".join(random.sample(entries, random.choice((1, 1, 2)))).encode()
        path.write_bytes(_with_tokens(bytes_changed(text, random), tokens, random, most=2))
        with patch.object(store, "advisory_files", lambda: [str(path)]), suppress(MpsprobeError):
            [*store._own(set())]

    return attack


def workloads(folder: Path) -> Attack:
    """``--workloads FILE``: names and patterns, each looked up among the workloads."""
    from mpsprobe.plugins.registry import get_registry
    from mpsprobe_coverage.commands.several import names

    registry = get_registry()
    text = "bert-base\nresnet* # some\n# none\nhf:bert\ntimm:resnet18\n./folder\nfile.py:function\n"
    tokens = ("*", "?", "[", "]", "[!", ":", "#", " #", "\n", "\r", "\0", "../", "hf:*", "*:*", "[a-", "**", *TEXTS)
    path = folder / "names.txt"

    def attack(random: Random) -> None:
        path.write_bytes(_with_tokens(bytes_changed(text.encode(), random), tokens, random, most=2))
        with suppress(MpsprobeError):
            for name in names([], [str(path)], registry)[:20]:
                with suppress(MpsprobeError):
                    registry.workload(name)

    return attack


def programs(folder: Path) -> Attack:
    """Programs for CUDA with their settings, notebook and requirements: fixed twice, and looked at by ``doctor``."""
    from mpsprobe_fix.files import gather
    from mpsprobe_fix.fixing import diff, fixed
    from mpsprobe_fix.project import findings
    from mpsprobe_fix.rules import RULES

    made = made_module(ROOT / "plugins/mpsprobe-fix/tests/programs.py")
    codes = [code for files in (*made.CUDA_PROGRAMS.values(), made.STAY) for code in files.values()]
    lines = sorted({line for code in codes for line in code.splitlines(keepends=True)})
    wanted = "torch==2.6.0+cu118 ; sys_platform == 'linux'\nnumpy>=1\n-r a.txt\n[project]\ndependencies = ['triton']\n"
    project = {
        "project": {"dependencies": ["torch>=2.6,<3", "x; python_version<'3'"], "requires-python": ">=3.10"},
        "build-system": {"requires": ["a"]}, "dependency-groups": {"dev": ["b"]},
        "tool": {"poetry": {"dependencies": {"torch": "^2.0", "c": {"version": "1"}}}},
    }  # fmt: skip
    settings = "train:\n  device: cuda:0\n  - a: &a [1, *a]\n[x]\ndevice = 'cuda'\n"
    tokens = (*TEXTS, *"()[]{}:,.*@#\\'\"\0\r\t", "\n", "\ufeff", "f'{", "lambda: ", "if x:\n", "cuda", *lines)
    rules, names = list(RULES.values()), ("a.py", "a b.py", "\x1b[31m.py", "\n.pyw", "é.py")

    def attack(random: Random) -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        text = random.choice(codes) if random.random() < 0.7 else "".join(random.choices(lines, k=12))
        data = _with_tokens(text.encode(), tokens, random, most=3)
        (folder / random.choice(names)).write_bytes(bytes_changed(data, random) if random.random() < 0.2 else data)
        cells = [{"cell_type": "code", "source": random.choices(lines, k=4), "outputs": [1.5]} for _ in range(3)]
        notebook = json.dumps(document_changed({"cells": cells, "nbformat": 4}, random), indent=1).encode()
        (folder / "a.ipynb").write_bytes(_with_tokens(notebook, tokens, random, most=1))
        (folder / "a.yaml").write_bytes(_with_tokens(settings.encode(), tokens, random, most=2))
        for name in ("requirements.txt", "pyproject.toml", "setup.cfg", "environment.yml"):
            (folder / name).write_bytes(_with_tokens(wanted.encode(), tokens, random, most=2))
        if random.random() < 0.5:
            written = _as_toml(document_changed(project, random))
            (folder / "pyproject.toml").write_bytes(written.encode("utf-8", "replace"))
        with suppress(MpsprobeError):
            list(findings(str(folder), {}))
        found = gather([str(folder)])
        patch = fixed(found, rules)
        diff(found.sources, patch).encode("utf-8")
        for one in found.sources:
            if one.name in patch.texts:
                one.write(patch.texts[one.name])
        again = fixed(gather([str(folder)]), rules)
        assert not again.texts, diff(gather([str(folder)]).sources, again)

    return attack


def _as_toml(document: Any) -> str:
    """The keys of ``document`` as those of a TOML file, each value in one line."""

    def value(one: Any) -> str:
        if isinstance(one, dict):
            return "{" + ", ".join(f"{json.dumps(key)} = {value(inner)}" for key, inner in one.items()) + "}"
        return f"[{', '.join(map(value, one))}]" if isinstance(one, list) else json.dumps(one).lower()

    pairs = document.items() if isinstance(document, dict) else ()
    return "".join(f"{json.dumps(key)} = {value(one)}\n" for key, one in pairs)


def atlases(folder: Path) -> Attack:
    """Stores of an atlas: answers, and any column, of a row; listed, ranked, exported and made into pages."""
    import sqlite3

    from mpsprobe_atlas import exports
    from mpsprobe_atlas.answers import joined, pack, unpack
    from mpsprobe_atlas.reading import heads, judged
    from mpsprobe_atlas.site.data import SiteData
    from mpsprobe_atlas.store import Row, Store, WritableStore

    made = made_module(ROOT / "plugins/mpsprobe-atlas/tests/made_store.py")
    wrong = {"id": "a", "calls": 2, "title": "t", "workaround": None, "chips": ["m1"]}
    found = [made.finding(f"aten::{verdict}", verdict, Random(verdict)) for verdict in made.VERDICTS[:3]]
    documents = {release: made.report(found, 3, [wrong]) for release in ("2.12.1", "2.13.0")}
    sound, path = pack(documents, {"2.13.0": {"8": "fits"}}), folder / "atlas.sqlite"
    head = json.loads(unpack(sound).segments[0].head)
    with WritableStore(path, {"versions": made.VERSIONS}) as store:
        for workload in ("bert", "gpt"):
            store.add(Row(workload, "small", "training", "float32", "answered", rules="{}", answer=sound))
    kept = path.read_bytes()
    values = (None, -1, 2**63 - 1, 1.5, "", b"", b"\xff", "\x1b[31m</script>", "x" * 5000, *TEXTS)

    def answer(random: Random) -> bytes:
        match random.randrange(3):
            case 0:
                changed = {release: document_changed(one, random) for release, one in documents.items()}
                with suppress(UnicodeEncodeError, AttributeError, KeyError, TypeError):  # no store can have it
                    return pack(changed, {})
            case 1:
                text = json.dumps(document_changed(head, random)).encode()
                return joined(text, unpack(sound).segments[0].body)
        return bytes_changed(sound, random)

    def attack(random: Random) -> None:
        path.write_bytes(kept)
        changed = random.choice(("workload", "architecture", "parameters", "rules", "made", "answer", "answer"))
        with sqlite3.connect(path) as database, suppress(sqlite3.Error, UnicodeEncodeError):
            value = answer(random) if changed == "answer" else random.choice(values)
            database.execute(f"UPDATE rows SET {changed} = ? WHERE id = 1", (value,))
        database.close()
        with suppress(MpsprobeError), Store(path) as store:
            list(heads(store))
        with suppress(MpsprobeError), Store(path) as store:
            rows = list(judged(store, native=True))
            for one in rows:
                list(exports.runs(one)), list(exports.operators(one))
            data = SiteData(rows, store.about())
            data.index(), list(data.model_files()), list(data.operator_files())

    return attack


def _with_tokens(data: bytes, tokens: Sequence[str], random: Random, most: int) -> bytes:
    for _ in range(random.randint(0, most)):
        place = random.randrange(len(data) + 1)
        data = data[:place] + random.choice(tokens).encode("utf-8", "surrogatepass") + data[place:]
    return data


def made_module(path: Path, name: str = "") -> Any:
    """A file of another suite's, whose folder is not on the path of this one; as ``name`` where others import it."""
    name = name or f"fuzz_{path.stem}"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


TARGETS: dict[str, Callable[[Path], Attack]] = {
    one.__name__: one
    for one in (
        reports,
        traces,
        xplanes,
        tables,
        machos,
        wheels,
        checkpoints,
        vanishing,
        expectations,
        settings,
        advisories,
        workloads,
        programs,
        atlases,
    )
}
