"""Reports on models, functions and SavedModels, and what is refused."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

import mpsprobe
from mpsprobe.errors import MpsprobeError, UnknownName, UsageError, WorkloadError
from mpsprobe.progress import SilentProgress
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import CoverageReport, MatrixReport
from mpsprobe_devkit.testing import run_cli
from mpsprobe_tensorflow import models
from mpsprobe_tensorflow.placing import flattening
from mpsprobe_tensorflow.scanner import TensorflowScanner
from mpsprobe_tensorflow.tables import table
from mpsprobe_tensorflow.workloads import KerasWorkload, SavedModelWorkload, applications


def judged(workload: Any, *releases: str, **options: Any) -> Any:
    """The report on a workload, or on what a test made."""
    made = SimpleNamespace(name="made", framework="tensorflow", build=lambda options: workload, describe=dict)
    one = workload if hasattr(workload, "build") and hasattr(workload, "describe") else made
    return TensorflowScanner().scan(one, RunOptions(**options), releases or ("1.2.0",), SilentProgress())


def small() -> Any:
    """A classifier that is not compiled; pictures of any number."""
    layers = keras.layers
    inside = [layers.Conv2D(4, 3), layers.Flatten(), layers.Dense(3, activation="softmax")]
    return keras.Sequential([keras.Input((8, 8, 3)), *inside])


def verdicts(report: Any) -> dict[str, str]:
    """The worst verdict of each operator."""
    return {one.operator: one.verdict for one in reversed(report.operators)}


def test_every_name_of_keras_applications() -> None:
    names = applications("the test")
    assert len(names) == len({name.replace("_", "") for name in names}) >= 38
    assert "mobilenet_v2" in names and "nasnet_large" in names
    with pytest.raises(UnknownName, match="keras:resnet5'; did you mean 'keras:resnet50'"):
        KerasWorkload("keras:resnet5").build(RunOptions())


def test_a_model_of_keras_takes_no_memory_and_is_native() -> None:
    model = KerasWorkload("keras:VGG-16").build(RunOptions())
    largest = max(model.variables, key=lambda one: one.shape.num_elements())
    assert largest.shape == (25088, 4096) and largest.numpy().size == 0
    report = judged(KerasWorkload("keras:vgg16"))
    assert report.summary.operators_by_verdict == {"native": report.summary.operators}
    assert (report.workload.parameters, report.workload.batch_size) == (138_357_544, 1)
    assert report.summary.native_since is not None
    assert report.summary.transfers.to_gpu_bytes == 224 * 224 * 3 * 4 and report.summary.transfers.to_cpu == 0


def test_training_as_keras_does_it() -> None:
    report = judged(small(), phase="training")
    found = verdicts(report)
    assert found["Conv2DBackpropFilter"] == found["AssignSubVariableOp"] == "native"
    assert found["AddV2"] == "fallback"  # Adam counts its steps in int64, which the plugin cannot add
    [steps] = [one for one in report.operators if (one.operator, one.verdict) == ("AddV2", "fallback")]
    assert steps.reason == "the plugin has no kernel of AddV2 with T=int64: it runs on the CPU"
    assert steps.phases["optimizer"] == 4 and steps.transfers.to_cpu_bytes == 8 * steps.transfers.to_cpu
    assert steps.call_sites[0].startswith("keras/src/optimizers/adam.py:")
    assert report.workload.optimizer == "Adam" and report.workload.batch_size == 8
    assert any("not compiled" in note for note in report.workload.notes)


@pytest.mark.parametrize("optimizer", [keras.optimizers.AdamW(weight_decay=0.1), keras.optimizers.SGD(momentum=0.9)])
def test_what_is_updated_alike_is_traced_once(optimizer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def report() -> Any:
        layers = [keras.layers.Dense(4, activation="relu") for _ in range(3)]
        model = keras.Sequential([keras.Input((4,)), *layers])
        model.compile(type(optimizer).from_config(optimizer.get_config()), "mse", jit_compile=False)
        return judged(model, phase="training")

    once = report()
    monkeypatch.setattr(models, "ALIKE", frozenset())
    each = report()
    assert once.summary == each.summary
    counted = [{(one.operator, one.reason): (one.phases, one.transfers) for one in every} for every in (once, each)]
    assert counted[0] == counted[1]


def test_a_compiled_model_keeps_its_own_optimizer_and_loss() -> None:
    model = small()
    model.compile(keras.optimizers.SGD(momentum=0.9), "sparse_categorical_crossentropy", metrics=["accuracy"])
    report = judged(model, phase="training", batch_size=2)
    assert report.workload.optimizer == "SGD" and report.workload.batch_size == 2
    assert "SparseSoftmaxCrossEntropyWithLogits" in verdicts(report)
    assert not any("not compiled" in note for note in report.workload.notes)


def test_known_wrong_results_by_what_the_graph_has(monkeypatch: pytest.MonkeyPatch) -> None:
    def ids(made: Any, *releases: str, **options: Any) -> list[str]:
        return [one.id for one in judged(made, *releases, **options).advisories]

    assert ids(small(), "1.2.0") == ["metal-inference-differs"] and ids(small(), "1.0.1") == []
    assert ids(small(), "1.2.0", phase="training") == []  # it goes with TensorFlow 2.16, 2.18 and 2.19
    trained = judged(small(), "1.1.0", phase="training")
    [known] = trained.advisories
    assert known.id == "metal-training-diverges" and known.operators == ["Conv2D", "MatMul"]
    assert known.phases == {"forward": 2, "backward": 2} and trained.summary.advisories == 1
    assert any("slow on Apple's GPUs" in note for note in trained.target.notes)
    model = small()
    model.compile(keras.optimizers.RMSprop(), "mse")
    assert ids(model, "1.1.0", phase="training") == []
    monkeypatch.setattr(table, "installed", lambda: "1.1.0")  # with the TensorFlow that is installed, a newer one
    assert ids(small(), "1.1.0", phase="training") == []
    wide = tf.function(lambda x: tf.nn.conv2d(x, tf.zeros((1, 1, 1, 65537)), 1, "SAME"))
    assert ids((wide, tf.TensorSpec((1, 2, 2, 1))), "1.1.0") == ["metal-conv-channels-65536"]
    matrix = judged(small(), "1.0.1", "1.2.0")
    assert [cell.advisories for cell in matrix.releases] == [[], ["metal-inference-differs"]]
    assert [one.id for one in matrix.advisories] == ["metal-inference-differs"]


def test_a_model_for_xla_is_unsupported() -> None:
    model = small()
    model.compile("sgd", "categorical_crossentropy", jit_compile=True)
    assert set(verdicts(judged(model, phase="training")).values()) == {"unsupported"}
    groups = keras.Sequential([keras.Input((8, 8, 4)), keras.layers.Conv2D(4, 3, groups=2)])
    found = verdicts(judged(groups))
    assert found["Conv2D"] == "unsupported" and found["BiasAdd" if "BiasAdd" in found else "AddV2"] == "native"


def test_half_precision_by_the_policy() -> None:
    report = judged(KerasWorkload("keras:mobilenet"), autocast="float16")
    assert keras.config.dtype_policy().name == "float32"
    assert "float16" in {dtype for one in report.operators for dtype in one.dtypes}
    assert report.workload.autocast == "float16"


def test_operations_that_grappler_leaves_and_eager_ones() -> None:
    @tf.function(input_signature=[tf.TensorSpec((2, 4))])
    def function(x: Any) -> Any:
        return tf.math.erfinv(x * 2.0 * 3.0) + tf.sin(tf.constant([1.0, 2.0, 3.0, 4.0]))

    plain, optimized, eager = (judged(function, graph=graph) for graph in ("plain", "optimized", "eager"))
    calls = [{one.operator: one.calls for one in report.operators} for report in (plain, optimized, eager)]
    assert calls[0]["Mul"] == calls[2]["Mul"] == 2 and calls[1]["Mul"] == 1
    assert "Sin" not in calls[1] and calls[1]["Erfinv"] == 1
    # The plain graph copies x * 6 to the CPU and the result, with that of Sin, back; eager execution the list, too.
    copied = [report.summary.transfers for report in (plain, optimized, eager)]
    assert [(one.to_cpu, one.to_gpu) for one in copied] == [(1, 3), (1, 2), (2, 4)]
    assert "leaves" in optimized.workload.notes[-1] and "by itself" in eager.workload.notes[-1]
    trained = judged(small(), phase="training", graph="optimized")
    assert verdicts(trained)["Conv2DBackpropFilter"] == "native"
    assert {one.operator: one.calls for one in trained.operators}["AssignSubVariableOp"] == 4
    with pytest.raises(UsageError, match="--graph is for workloads of TensorFlow"):
        mpsprobe.coverage("bert-base", graph="eager")


def test_loops_and_functions_are_followed() -> None:
    @tf.function(input_signature=[tf.TensorSpec((None, 4))])
    def function(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 3, lambda i, z: (i + 1, tf.sin(tf.nn.relu(z))), (0, x))[1]

    report = judged(function, batch_size=2)
    assert verdicts(report)["Sin"] == "fallback" and verdicts(report)["Relu"] == "native"
    [sine] = [one for one in report.operators if one.operator == "Sin"]
    assert sine.transfers.to_cpu_bytes == 2 * 4 * 4
    # What goes in, what a turn leaves for the next one, and the condition, a bool.
    assert report.summary.transfers.to_gpu_bytes == 2 * 4 * 4 + 2 * 4 * 4 + 1
    assert any("first dimension is open: 2 was taken" in note for note in report.workload.notes)


def test_inputs_come_with_the_model_or_the_function() -> None:
    class Own(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = keras.layers.Dense(3)

        def call(self, x: Any) -> Any:
            return tf.linalg.det(tf.matmul(self.layer(x), self.layer(x), transpose_a=True))

    assert verdicts(judged((Own(), tf.TensorSpec((2, 5)))))["MatrixDeterminant"] == "fallback"
    assert verdicts(judged((tf.function(tf.math.erfinv), [[0.5]])))["Erfinv"] == "fallback"
    with pytest.raises(WorkloadError, match="does not say what it is called with"):
        judged(Own())
    with pytest.raises(WorkloadError, match="returned a dict"):
        judged({})
    with pytest.raises(WorkloadError, match="cannot be traced: ValueError"):
        judged((small(), tf.TensorSpec((2, 5))))
    with pytest.raises(UsageError, match="says itself what it runs"):
        judged(tf.function(tf.sin), phase="training")


def test_a_program_hands_over_what_it_has() -> None:
    importlib.import_module("torch")  # whose plugin takes functions too
    report: Any = mpsprobe.coverage(small(), torch="1.2.0")
    assert report.target.version == "1.2.0" and not report.findings
    assert verdicts(mpsprobe.coverage(tf.function(tf.math.erfinv), [0.5]))["Erfinv"] == "fallback"
    with pytest.raises(UsageError, match="would change its optimizer"):
        mpsprobe.coverage(small(), phase="training")


def test_open_dimensions_get_a_size() -> None:
    tokens = keras.Input((None,))
    model = keras.Model(tokens, keras.layers.LSTM(4)(keras.layers.Embedding(10, 4)(tokens)))
    report = judged(model, seq_len=16)
    assert any("is open: 16 was taken for it" in note for note in report.workload.notes)
    assert models.LENGTH != 16
    for first, sizes in ((7, [7, models.LENGTH, 3]), (None, [models.LENGTH, models.LENGTH, 3])):
        assert models.closed(tf.TensorSpec((None, None, 3)), first).shape.as_list() == sizes


def test_several_releases_make_a_matrix() -> None:
    report = judged(KerasWorkload("keras:mobilenet"), "0.5.0", "1.2.0", dtype="float16")
    assert isinstance(report, MatrixReport)
    assert [cell.target.version for cell in report.releases] == ["0.5.0", "1.2.0"]
    assert report.releases[0].findings["Conv2D"] == "fallback" and "Conv2D" not in report.releases[1].findings


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    class Module(tf.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            self.factor = tf.Variable(tf.ones((4, 4)))

        @tf.function(input_signature=[tf.TensorSpec((None, 4))])
        def __call__(self, x: Any) -> Any:
            return tf.sin(tf.matmul(x, self.factor))

    tf.saved_model.save(Module(), str(tmp_path / "saved"))
    return tmp_path / "saved"


def test_a_saved_model_is_read_and_not_run(saved: Path) -> None:
    report = judged(SavedModelWorkload(str(saved)), batch_size=2)
    assert verdicts(report)["Sin"] == "fallback" and verdicts(report)["MatMul"] == "native"
    assert (report.workload.parameters, report.workload.batch_size) == (16, 2)
    [sine] = [one for one in report.operators if one.operator == "Sin"]
    assert sine.transfers.to_cpu_bytes == 2 * 4 * 4
    with pytest.raises(UsageError, match="cannot be trained"):
        judged(SavedModelWorkload(str(saved)), phase="training")


def test_custom_operators_are_unknown(saved: Path) -> None:
    path = saved / "saved_model.pb"
    path.write_bytes(path.read_bytes().replace(b"\x03Sin", b"\x03Zin"))
    report = judged(SavedModelWorkload(str(saved)))
    assert verdicts(report)["Zin"] == "unknown"
    assert [one.operator for one in report.not_judged] == ["Zin"]


@pytest.mark.parametrize("keep", [0, 10, 0.5, 0.9])
def test_a_damaged_saved_model_is_refused(saved: Path, keep: float) -> None:
    path = saved / "saved_model.pb"
    content = path.read_bytes()
    path.write_bytes(content[: int(keep if keep > 1 else keep * len(content))])
    with pytest.raises(WorkloadError, match=r"damaged|no graph|no signature"):
        judged(SavedModelWorkload(str(saved)))


def test_any_byte_may_be_wrong(saved: Path) -> None:
    path = saved / "saved_model.pb"
    content = path.read_bytes()
    for position in range(0, len(content), 41):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x15]) + content[position + 1 :])
        try:
            report = judged(SavedModelWorkload(str(saved)))
        except MpsprobeError:
            continue
        assert CoverageReport.model_validate_json(report.model_dump_json()) == report


def test_functions_that_call_themselves_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flattening, "MOST_NODES", 1000)
    saved = saved_model_pb2.SavedModel()
    graph = saved.meta_graphs.add()
    functions = [graph.graph_def.library.function.add() for _ in range(20)]
    for number, function in enumerate(functions):
        function.signature.name = f"f{number}"
        function.signature.output_arg.add(name="o", type=1)
        function.ret["o"] = "c1:output:0"
        for half in range(2):
            _call(function.node_def.add(), f"c{half}", f"f{(number + 1) % 20}")
    _call(graph.graph_def.node.add(), "x", "f0")
    graph.signature_def["serving_default"].outputs["y"].name = "x:0"
    (tmp_path / "saved_model.pb").write_bytes(saved.SerializeToString())
    report = judged(SavedModelWorkload(str(tmp_path)))
    assert report.workload.notes[1].endswith("in a graph of more than 1,000 operations")


def _call(node: Any, name: str, function: str) -> None:
    node.name, node.op = name, "PartitionedCall"
    node.attr["f"].func.name = function
    node.attr["Tout"].list.type.append(1)
    node.attr["Tin"].list.SetInParent()


def test_options_of_torch_are_refused() -> None:
    for options in ({"lora": True}, {"weights": True}, {"grad_accum": 2}, {"phase": "generate"}, {"size": "small"}):
        with pytest.raises(UsageError):
            KerasWorkload("keras:vgg16").build(RunOptions(**options))  # type: ignore[arg-type]


def test_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(
        "import keras\n\ndef make(batch_size=3):\n    x = keras.Input((4,), batch_size=batch_size)\n"
        "    return keras.Model(x, keras.ops.erfinv(keras.layers.Dense(2)(x)))\n",
        encoding="utf-8",
    )
    result = run_cli("coverage", "mine.py:make", "--release", "1.2.0", "--format", "json", process=False)
    assert result.code == 0, result.stderr
    report = CoverageReport.model_validate_json(result.stdout)
    assert (report.target.backend, report.target.version, report.target.torch) == ("tensorflow-metal", "1.2.0", None)
    document = json.loads(result.stdout)
    assert document["target"]["release"] == "1.2.0" and document["environment"]["tensorflow"] == tf.__version__
    [erfinv] = [one for one in report.operators if one.operator == "Erfinv"]
    assert erfinv.verdict == "fallback" and erfinv.shapes == ["3x2"] and erfinv.call_sites[0].startswith("keras/src/")
    failed = run_cli("coverage", "mine.py:make", "--fail-on", "fallback", "--release", "all", process=False)
    assert failed.code == 1
    allowed = ("--fail-on", "fallback", "--allow", "Erfinv,Identity,Const")
    assert run_cli("coverage", "mine.py:make", *allowed, process=False).code == 0
    both = run_cli("coverage", "mine.py:make", "keras:vgg16", "bert-base", process=False)
    assert both.code == 2 and "several frameworks" in both.stderr
    other = run_cli("coverage", "mine.py:make", "--backend", "xpu", process=False)
    assert other.code == 2 and "tensorflow-metal" in other.stderr
