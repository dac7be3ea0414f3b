"""Sample reports for the tests of exporters: small, fixed, and with every field filled at least once."""

from __future__ import annotations

from mpsprobe.schemas import (
    AdvisoryMatch,
    AffectedRange,
    AffectedSystems,
    AllocatingCall,
    Allocation,
    AllocationList,
    ComputedOnCpu,
    CoverageReport,
    CoverageSummary,
    CudaHint,
    DataDependence,
    Environment,
    GraphCount,
    GraphGrowth,
    JudgedWorkload,
    MacosCondition,
    MatrixCell,
    MatrixReport,
    MemoryEnd,
    MemoryFigures,
    MemoryFit,
    MemoryHolder,
    MemoryPoint,
    MemoryPrediction,
    NotCounted,
    OnTheCpu,
    OperatorFinding,
    ProgramInfo,
    Recalled,
    RefusedTensor,
    RunFailure,
    SeveralReport,
    TableProvenance,
    Target,
    Unjudged,
    UnknownReport,
    Verdict,
    WorkloadInfo,
)

ENVIRONMENT = Environment(
    mpsprobe="0.1.0",
    python="3.11.7",
    platform="linux-x86_64",
    torch="2.13.0",
    torch_build="cpu",
    transformers="5.23.0",
)
WORKLOAD = WorkloadInfo(
    name="sample",
    architecture="SampleModel",
    phase="training",
    dtype="float32",
    parameters=109_482_240,
    batch_size=2,
    seq_len=128,
    optimizer="AdamW",
    notes=["labels are random"],
)
# Cells with '|', newlines and a comma in quotes are what breaks a careless table or CSV writer.
OPERATORS = [
    OperatorFinding(
        operator="aten::linear",
        verdict="native",
        calls=73,
        phases={"forward": 73},
        dtypes=["float32"],
        shapes=["[2, 128, 768] [768, 768]"],
        modules=["encoder.layer.0.attention.self.query", "encoder.layer.0.attention.self.key"],
        call_sites=["torch/nn/modules/linear.py:134"],
        native_since="2.0.0",
        input_bytes=172_000_000,
        output_bytes=57_000_000,
    ),
    OperatorFinding(
        operator="aten::_linalg_svd.U",
        verdict="fallback",
        calls=2,
        phases={"forward": 1, "backward": 1},
        dtypes=["float32", "float16"],
        modules=["head"],
        call_sites=["model.py:12"],
        native_since="2.14.0",
        input_bytes=4096,
        output_bytes=8192,
        reason="registered to run on the CPU",
        advice='Use torch 2.14.0, or "full_matrices=False, driver=None" | smaller input.',
    ),
    OperatorFinding(
        operator="aten::_ctc_loss",
        verdict="missing",
        calls=1,
        phases={"forward": 1},
        dtypes=["float32", "int64"],
        modules=[""],
        call_sites=["loss.py:7"],
        reason="no kernel in this release;\nno later one has it either",
        advice="PYTORCH_ENABLE_MPS_FALLBACK=1 runs it on the CPU.",
    ),
    OperatorFinding(
        operator="aten::add.Tensor",
        verdict="unsupported",
        calls=1,
        phases={"optimizer": 1},
        dtypes=["float64"],
        reason="MPS has no float64",
        source="dtype",
        evidence="float64",
    ),
]
SUMMARY = CoverageSummary(
    calls=77,
    operators=4,
    calls_by_verdict={"native": 73, "fallback": 2, "missing": 1, "unsupported": 1},
    operators_by_verdict={"native": 1, "fallback": 1, "missing": 1, "unsupported": 1},
    parameters_bytes=437_928_960,
)
UNJUDGED = [Unjudged(operator="mylib::fused", reason="no table covers its library", calls=3, call_sites=["ops.py:3"])]
DATA_DEPENDENCE = [DataDependence(operator="aten::_local_scalar_dense", assumed="1.0", call_sites=["model.py:20"])]
MACOS_CONDITION = MacosCondition(macos="14.0", what="bfloat16", operators=["aten::linear"])
REFUSED_TENSOR = RefusedTensor(
    dtype="float64", operator="aten::add.Tensor", phase="optimizer", module="head", call_site="model.py:40"
)
ADVISORY = AdvisoryMatch(
    id="attention-example",
    title="Attention reads beyond its tensors",
    condition="more than 1023 keys",
    symptom="Wrong outputs.",
    workaround="Pass a mask.",
    hardware="M1",
    torch=AffectedRange(since="1.12.0", fixed="2.14.0"),
    macos=AffectedSystems(since="15.0", open=True),
    sources=["pytorch/pytorch#1"],
    operators=["aten::linear"],
    calls=12,
    phases={"forward": 12},
    modules=["attention"],
    call_sites=["model.py:12"],
)
END = MemoryEnd(
    answer="raises",
    recommended_bytes=1_145_324_961,
    largest_buffer_bytes=858_993_721,
    collects_bytes=1_603_454_946,
    allowed_bytes=1_947_052_434,
    margin_bytes=-311_241_582,
    reserved_bytes=1_941_962_752,
    message="MPS backend out of memory (MPS allocated: 1.81 GiB, other allocations: 0 bytes, max allowed: 1.81 GiB).",
    refused="activations",
    refused_bytes=93_952_409,
    phase="forward",
    first_step=True,
    operator="aten::linear",
    module="attention",
    call_site="model.py:12",
)
FIT = MemoryFit(
    machine="a Mac with 1.6 GB",
    memory_bytes=1_717_986_918,
    answer="unclear",
    low=END,
    high=MemoryEnd(
        answer="pressure",
        recommended_bytes=1_500_000_000,
        largest_buffer_bytes=958_993_721,
        collects_bytes=2_100_000_000,
        allowed_bytes=2_550_000_000,
        margin_bytes=291_705_984,
        reserved_bytes=2_466_250_752,
        first_step=True,
    ),
    basis="published",
    sources=["haoheliu/AudioLDM2#20"],
)
MEMORY = MemoryPrediction(
    peak_bytes=2_250_669_860,
    phase="backward",
    by_category={"activations": 1_312_740_900, "parameters": 437_928_960, "gradients": 500_000_000},
    by_phase={"forward": 1_750_669_860, "backward": 2_250_669_860},
    by_module={"attention": 1_312_740_900},
    holders=[
        MemoryHolder(
            category="activations",
            bytes=1_312_740_900,
            storages=12,
            operator="aten::linear",
            modules=["attention"],
            call_site="model.py:12",
        ),
        MemoryHolder(category="parameters", bytes=437_928_960, storages=199),
    ],
    curve=[MemoryPoint(phase="forward", bytes=1_750_669_860), MemoryPoint(phase="backward", bytes=2_250_669_860)],
    largest_bytes=93_763_584,
    allocated_bytes=2_258_294_016,
    reserved_bytes=2_466_250_752,
    kernels_bytes=1_048_576,
    not_counted=[NotCounted(what="graphs that MPSGraph compiles"), NotCounted(what="copies", bytes=4096)],
    allocations=AllocationList(
        storages=[
            Allocation(bytes=4096, category="parameters", begins=0, module="attention", segment=0, offset=0, size=4096),
            Allocation(
                bytes=600,
                category="temporary",
                begins=1,
                ends=2,
                phase="forward",
                call=0,
                segment=0,
                offset=4096,
                size=768,
            ),
        ],
        calls=[AllocatingCall(operator="aten::linear", module="attention", call_site="model.py:12")],
        segments=[8_388_608],
    ),
    fit=FIT,
)
FAILURE = RunFailure(
    phase="backward", error="RuntimeError", message="shapes differ", module="head", call_site="model.py:31"
)

PROGRAM = ProgramInfo(
    arguments=["--epochs", "1"],
    exit_code=1,
    device="virtual",
    values="real",
    seconds=12.5,
    processes=2,
    stayed_on_cpu=[OnTheCpu(module="Teacher", calls=3, parameters_bytes=4096, call_site="train.py:31")],
    computed_on_cpu=[
        ComputedOnCpu(call_site="train.py:40", operators=["aten::cdist"], calls=2, data_bytes=8192, share=0.25)
    ],
    cuda=[CudaHint(what="pin_memory=True", instead="pin_memory=False", calls=1, call_sites=["train.py:12"])],
    notes=["what else to know"],
)


def _target(torch: str) -> Target:
    wheel = f"torch-{torch}-cp311-none-macosx_11_0_arm64.whl"
    return Target(torch=torch, macos_minimum="14.0", table=TableProvenance(wheel=wheel, sha256="5" * 64))


def sample_coverage_report() -> CoverageReport:
    """A training step with one operator under each of four verdicts, one not judged, ended by an exception."""
    return CoverageReport(
        method="predicted",
        workload=WORKLOAD,
        target=_target("2.13.0"),
        environment=ENVIRONMENT,
        summary=SUMMARY,
        operators=OPERATORS,
        not_judged=UNJUDGED,
        data_dependence=DATA_DEPENDENCE,
        first_refused_tensor=REFUSED_TENSOR,
        macos_conditions=[MACOS_CONDITION],
        advisories=[ADVISORY],
        growth=GraphGrowth(
            varied="seq-len",
            first=1,
            last=512,
            tried=[1, 2, 64],
            fixed=GraphCount(least=3, most=4),
            each=GraphCount(least=2, most=5),
            total=GraphCount(least=1027, most=2564),
            padded_to=64,
            padded=GraphCount(least=19, most=44),
        ),
        memory=MEMORY,
        explained=True,
        failure=FAILURE,
        program=PROGRAM,
        allowed=["aten::_ctc_loss"],
        recalled=Recalled(source="mpsprobe-atlas 0.1.0", made="2026-11-22T19:30:00Z", notes=["torch 2.6.0 is here"]),
    )


def sample_matrix_report() -> MatrixReport:
    """Three releases: one that failed, one with findings, one that is wholly native."""
    clean = CoverageSummary(
        calls=77,
        operators=4,
        calls_by_verdict={"native": 77},
        operators_by_verdict={"native": 4},
        native_since="2.14.0",
    )
    findings: dict[str, Verdict] = {one.operator: one.verdict for one in OPERATORS if one.verdict != "native"}
    return MatrixReport(
        method="predicted",
        workload=WORKLOAD,
        environment=ENVIRONMENT,
        native_since="2.14.0",
        releases=[
            MatrixCell(target=_target("1.12.0"), summary=SUMMARY, fit=FIT, findings=findings, failure=FAILURE),
            MatrixCell(
                target=_target("2.13.0"),
                summary=SUMMARY,
                memory=MEMORY.figures(),
                findings=findings,
                advisories=[ADVISORY.id],
            ),
            MatrixCell(target=_target("2.14.0"), summary=clean, memory=MemoryFigures(peak_bytes=2_000_000_000)),
        ],
        operators=[one.model_copy(update={"verdict": "native", "reason": None, "advice": None}) for one in OPERATORS],
        not_judged=UNJUDGED,
        data_dependence=DATA_DEPENDENCE,
        advisories=[ADVISORY],
        allowed=["aten::_ctc_loss"],
        recalled=Recalled(source="cache", made="2026-11-22T19:30:00Z"),
    )


def sample_several_report() -> SeveralReport:
    """Three workloads: one on one release, one on three, and one that could not be judged; then Ctrl-C."""
    workloads = [
        JudgedWorkload(name="sample", seconds=1.5, report=sample_coverage_report()),
        JudgedWorkload(name="sample-of-releases", seconds=2.5, report=sample_matrix_report()),
        JudgedWorkload(name="models.py:make", error="models.py:make() raised KeyError: 'x'", hint="models.py:3"),
    ]
    return SeveralReport(environment=ENVIRONMENT, workloads=workloads, complete=False)


def sample_unknown_report() -> UnknownReport:
    """A report of a kind that only some plugin knows, with sections that are kept verbatim."""
    sections = {"kind": "weather", "schema_version": 7, "sections": [{"sunny": True, "degrees_celsius": 21.5}]}
    return UnknownReport.model_validate(sections)
