"""What the heavy half of a plugin looks like. Structural: nothing needs to inherit from these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from mpsprobe.schemas.profile import DeviceInfo
    from mpsprobe.schemas.report import Report
    from mpsprobe.schemas.run import WorkloadInfo


@dataclass(frozen=True)
class MacOptions:
    """The Mac to judge for, which travels whole from the flags to what judges. ``None``: any, with a new macOS.

    Attributes:
        macos, chip, memory: a version; ``m2`` or ``m2-pro-16gb``; bytes.
    """

    macos: str | None = None
    chip: str | None = None
    memory: int | None = None


@dataclass(frozen=True)
class GenerateOptions:
    """What ``generate`` is asked for, in the words of the flags.

    Attributes:
        new_tokens, decoding, cache, word_timestamps: how many; how one is chosen; where keys are kept; of sound.
    """

    new_tokens: int = 8
    decoding: str = "greedy"
    cache: str = "dynamic"
    word_timestamps: bool = False


@dataclass(frozen=True)
class TensorflowOptions:
    """What only workloads of TensorFlow have.

    Attributes:
        graph: which operations: ``plain`` as they are placed, ``optimized`` by grappler, or ``eager``.
    """

    graph: str = "plain"


@dataclass(frozen=True)
class RunOptions(MacOptions, GenerateOptions, TensorflowOptions):
    """What the user asked of a run: of any framework here. ``None``: as the workload is used in practice.

    Attributes:
        phase: ``inference``, ``training`` or ``generate``.
        dtype: of parameters and floating-point inputs: ``float32``, ``float16`` or ``bfloat16``.
        batch_size, seq_len: samples in one step; tokens, frames or whatever the workload's sequences are made of.
        size: ``real``, or ``small``: few layers of the same structure, where a configuration gives the sizes.
        weights, trust_remote_code: load real weights, not random ones; allow a checkpoint to bring its own Python code.
        autocast: ``float16`` or ``bfloat16`` to run the forward pass under autocast.
        grad_accum, clip_norm: backward passes for each optimizer step; largest gradient norm, 0 for none.
        lora, lora_rank: train LoRA adapters of that rank instead of the whole model.
        allocations: keep every allocation in the report.
        backend: whose kernels a scanner judges by; a plugin brings the tables of another one than MPS.
    """

    phase: str = "inference"
    dtype: str = "float32"
    batch_size: int | None = None
    seq_len: int | None = None
    size: str = "real"
    weights: bool = False
    trust_remote_code: bool = False
    autocast: str | None = None
    grad_accum: int = 1
    clip_norm: float = 1.0
    lora: bool = False
    lora_rank: int = 16
    allocations: bool = False
    backend: str = "mps"


@dataclass(slots=True)
class TorchRun:
    """A torch workload, built: a model, its inputs, and how one step of it goes.

    Attributes:
        model: a ``torch.nn.Module`` in the mode (``train``/``eval``) and dtype that the options ask for.
        args, kwargs: what the model is called with; in training with the labels that its ``loss`` needs.
        architecture: the model's class name, for the report.
        call: runs the model once; ``model(*args, **kwargs)`` by default (``generate`` for some).
        loss: the scalar to call ``backward`` on, from what ``call`` returned.
        optimizer: makes the optimizer; ``None`` for AdamW as Hugging Face's Trainer makes it.
        batch_size, seq_len: what the inputs really have; ``None`` where there is no such thing.
        notes: what a reader of the report should know (for example an assumption about the inputs).
        correct: given what the model raised, the run with other derived inputs; ``None`` where none is left to try.
    """

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    architecture: str = ""
    call: Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any] | None = None
    loss: Callable[[Any], Any] | None = None
    optimizer: Callable[[Any], Any] | None = None
    batch_size: int | None = None
    seq_len: int | None = None
    notes: Sequence[str] = ()
    correct: Callable[[Exception], TorchRun | None] | None = None


@runtime_checkable
class Workload(Protocol):
    """Something to run.

    ``build`` makes the model and its inputs on torch's default device and nowhere else: the caller sets the device
    (``with torch.device(…)`` or a mode of its own) and moves what it gets. So one workload serves the virtual MPS
    device and a real one. A workload of another framework returns that framework's own object.
    """

    name: str
    """What the user typed, and what reports call it."""
    framework: str
    """What it is written in; a scanner says which it reads."""

    def build(self, options: RunOptions) -> Any:
        """Model and inputs for ``options``; for ``framework == "torch"`` a ``TorchRun``.

        Raises:
            WorkloadError: it cannot be built; the message says what to do.
            UsageError: an option that this workload cannot honour.
        """

    def describe(self) -> Mapping[str, Any]:
        """Facts for ``mpsprobe workloads show``, JSON-serialisable, found without building."""


class Progress(Protocol):
    """How long work reports its progress; the CLI draws it on a terminal, and nothing elsewhere."""

    def start(self, total: int | None, what: str) -> None:
        """Begin ``total`` steps (``None``: not known) of ``what``."""

    def advance(self, what: str | None = None) -> None:
        """One step is done; ``what`` is what comes next."""

    def stop(self) -> None:
        """All is done, or given up. May be called more than once."""


@runtime_checkable
class Scanner(Protocol):
    """Turns a workload into a coverage report.

    One that reads ``torch`` may also have ``open_device(torch_release, *, backend="mps")``, which gives a
    ``mpsprobe_devkit.testing.OpenDevice``: the virtual device that tests open by the fixture ``virtual_device``.
    One that judges by releases of something else has ``backend``, its name, and ``releases(text) -> list[str]``, the
    exact releases that ``--release`` names; ``scan`` gets those.
    """

    def scan(
        self, workload: Workload, options: RunOptions, torch_releases: Sequence[str], progress: Progress
    ) -> Report:
        """Run a step of ``workload`` and judge it for ``torch_releases``: a coverage report for one, else a matrix.

        Raises:
            MpsprobeError: the workload cannot be built, or a release has no table.
        """


@dataclass(frozen=True, slots=True)
class Backend:
    """What PyTorch calls a backend, and what it does with an operator that has no kernel there.

    Attributes:
        device: the device type as ``torch.device`` takes it (``xpu``, ``privateuseone``).
        key: of dense tensors (``XPU``); sparse ones have ``Sparse`` or ``SparseCsr`` before it, autocast ``Autocast``.
        label: the backend as people write it, for reports; ``key`` where it is empty.
        without_kernel: ``raises``, or ``cpu``: the backend runs such an operator on the CPU, unasked.
        variable: what has it run on the CPU where it would raise (``PYTORCH_ENABLE_XPU_FALLBACK=1``), if anything.
    """

    device: str
    key: str
    label: str = ""
    without_kernel: str = "raises"
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class BackendKernels:
    """What one torch release registers for a backend. Operators are written ``namespace::name.overload``.

    Which operators the release has, and which have composite kernels, is known without it: the same on every backend.

    Attributes:
        release: of torch (``2.13.0``).
        kernels: dispatch key of the backend (``XPU``, ``SparseXPU``, ``AutocastXPU``) → operators with a kernel there.
        source: what it was read from, in words, for the report.
        sha256: of what it was read from, in hexadecimal, if that is one file.
        whole: no operator without an entry has a kernel. If False, those are ``unknown`` and never ``missing``.
        fallback: operators that are registered to run on the CPU, unasked; they need not be in ``kernels``.
        raising: operators whose registered kernel only raises.
        refused_dtypes: dtype (``float64``) → why no tensor can have it on the backend, in a sentence.
        notes: what a reader of a report should know of the table.
    """

    release: str
    kernels: Mapping[str, Collection[str]]
    source: str
    sha256: str = ""
    whole: bool = True
    fallback: Collection[str] = ()
    raising: Collection[str] = ()
    refused_dtypes: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


@runtime_checkable
class KernelTables(Protocol):
    """The kernels of one backend, release by release.

    One that can ask the running dispatcher may also have ``installed() -> BackendKernels | None``, which ``--torch
    installed`` means; ``None`` where the backend is not in this process. Without it the installed release's table is
    taken. One that knows where C++ asks tensors for their device type may have
    ``routes(release) -> Mapping[str, Callable]``: operator → a function with its arguments that calls, by
    ``torch.ops``, what that backend calls instead.
    """

    backend: Backend
    """Whose kernels they are."""

    def releases(self) -> Sequence[str]:
        """The torch releases that have a table; at least one. Nothing is read for it that ``table`` could read."""

    def table(self, release: str) -> BackendKernels:
        """The table of one of ``releases``.

        Raises:
            TableError: it cannot be read; the message says what to do.
        """


@runtime_checkable
class Exporter(Protocol):
    """Turns a report into something else.

    It may also have ``render_for_terminal(report) -> str``, which is called instead where the output goes to standard
    output: there it may look how wide and how colourful that is, and leave out what nobody needs to act, unless it is
    called with ``everything=True``, for ``--all``. What ``render`` returns must not depend on the terminal.

    One whose output can be large may have ``stream(report) -> Iterable[str | bytes]``, the same output in pieces, which
    are written as they come.

    The one called ``html`` may have ``render_for_notebook(report) -> str``: a piece of HTML for a notebook's cell.
    """

    def render(self, report: Report) -> str | bytes:
        """The whole output. Text for a terminal or a file, bytes where ``binary`` was declared."""


@runtime_checkable
class FolderExporter(Protocol):
    """Turns a report into files of a folder: what ``ExporterDeclaration.folder`` declares."""

    def files(self, report: Report) -> Iterable[tuple[str, Iterable[str | bytes]]]:
        """Each file's path and its content in pieces.

        Paths are relative, with ``/``, and begin with one folder that all of them share. If the target has a folder of
        that name already, a number is added: nothing is ever overwritten.
        """


@runtime_checkable
class Steps(Protocol):
    """A workload that is built, moved to a device and ready to be stepped."""

    info: WorkloadInfo
    """What it is."""
    model: Any
    """What is run (a ``torch.nn.Module``), for probes that look into it; ``None`` where there is no such thing."""

    def step(self) -> None:
        """One whole step. It may return before the device is done: the caller synchronises."""

    def phases(self) -> Mapping[str, int]:
        """One whole step, synchronised after each phase: ns by phase (``forward``, ``backward``, ``optimizer``)."""

    def close(self) -> None:
        """Release what it holds, on the device too. May be called more than once."""


class Stopwatch(Protocol):
    """Times by the clock of a device."""

    def start(self) -> None:
        """Begin, after everything that the device has been asked to do."""

    def stop(self) -> float:
        """Wait for what was asked of it since ``start``: ns. A value that is negative or not a number is not used."""


@runtime_checkable
class Device(Protocol):
    """What runs a workload.

    A device with a clock of its own may also have ``clock_unavailable() -> str | None``, why that clock cannot be
    trusted here, in a sentence, and ``stopwatch() -> Stopwatch``: what ``--clock device`` times steps with. One of
    another framework than torch may have ``environment() -> Mapping``: versions, by field of ``schemas.Environment``.
    """

    name: str
    """What ``--device`` and reports call it: torch's name of it."""

    def unavailable(self) -> str | None:
        """Why it cannot be used here, in a sentence; ``None`` where it can."""

    def describe(self) -> DeviceInfo:
        """What it is. Called only where it is available."""

    def open(self, workload: Workload, options: RunOptions, *, compiled: bool = False) -> Steps:
        """Build ``workload`` and move it here.

        Raises:
            MpsprobeError: it cannot be built, or not with these options.
        """

    def synchronize(self) -> None:
        """Wait until everything that was asked of the device is done."""

    def is_out_of_memory(self, error: BaseException) -> bool:
        """Whether ``error`` says that the device has no more memory."""


@runtime_checkable
class Probe(Protocol):
    """What measures while steps run.

    One that raises stands in the report as unavailable, with its error; the message of an ``MpsprobeError`` is taken as
    the reason. ``stop`` is then still called once, so that nothing goes on running, and its answer is thrown away.

    A probe that disturbs may also have ``shortest_ns``, how long its steps have to go on at least (energy counters
    are coarse), and ``steps``, how many it wants at least; both are read after ``start``.
    """

    name: str
    """What reports and ``--probe`` call it."""
    disturbs: bool
    """It makes steps slower, so it gets steps of its own after the timed ones."""

    def unavailable(self, device: Device) -> str | None:
        """Why it cannot measure on ``device`` here, in a sentence; ``None`` where it can."""

    def start(self, device: Device, steps: Steps) -> None:
        """The steps begin. Called between synchronised steps, as ``sample`` and ``stop`` are."""

    def sample(self) -> None:
        """A step is done and the next one has not begun; no clock runs."""

    def stop(self) -> Mapping[str, Any]:
        """The steps are over: what was found, by field of ``schemas.ProfileCell`` (``memory``, ``readings``, …)."""


@runtime_checkable
class Runner(Protocol):
    """A library's own loop around a workload's steps: what that library's users run."""

    name: str
    """What ``--runner`` and reports call it."""

    def unavailable(self, device: Device) -> str | None:
        """Why it cannot run on ``device`` here, in a sentence; ``None`` where it can."""

    def open(self, workload: Workload, options: RunOptions, device: Device, *, compiled: bool = False) -> Steps:
        """Build ``workload`` and pass it to the library, which moves it to ``device``.

        Raises:
            MpsprobeError: it cannot be built, or not with these options.
        """
