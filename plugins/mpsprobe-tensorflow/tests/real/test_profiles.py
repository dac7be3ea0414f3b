"""Profiles on the CPU by the same session as those of torch, TensorFlow's own profile, and the pages' blocks."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import keras
import pytest
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from mpsprobe.declarations import DeviceDeclaration
from mpsprobe.errors import UsageError
from mpsprobe.protocols import RunOptions
from mpsprobe.schemas import ProfileReport
from mpsprobe_devkit.testing import run_cli
from mpsprobe_tensorflow.devices import PLAIN, CpuDevice, CudaDevice, MetalDevice
from mpsprobe_tensorflow.plugin import mpsprobe_devices
from tests.docs.pages import OWN, TENSORFLOW, Block, blocks, stories
from tests.docs.running import play

MODEL = """
import keras

def make():
    layers = [keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3, activation="softmax")]
    return keras.Sequential([keras.Input((4,)), *layers])

def mine():
    class Own(keras.Model):
        def train_step(self, data):
            return super().train_step(data)
    inputs = keras.Input((4,))
    return Own(inputs, keras.layers.Dense(1)(inputs))

def step():
    import tensorflow as tf
    return tf.function(lambda x: tf.sin(x) @ tf.ones((4, 2)), input_signature=[tf.TensorSpec((None, 4))])
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "models.py").write_text(MODEL, encoding="utf-8")
    return tmp_path / "models.py"


def profiled(name: str, *flags: str) -> ProfileReport:
    """The report of a short profile."""
    short = ("--steps", "3", "--warmup", "1", "--probe", "memory,host", "--format", "json")
    result = run_cli("profile", name, *short, *flags, process=False)
    assert result.code == 0, result.stderr
    return ProfileReport.model_validate_json(result.stdout)


def test_a_model_of_keras_is_trained_in_three_phases(file: Path) -> None:
    report = profiled(f"{file}:make", "--phase", "training", "--batch-size", "4", "--probe", "memory,host,operators")
    [cell] = report.cells
    assert cell.failure is None and cell.device == "cpu" and len(cell.steps) == 3 and cell.first_call_ns[0] > 0
    assert list(cell.phases) == ["forward", "backward", "optimizer"]
    assert [one.probe for one in cell.unavailable] == ["operators"]
    assert cell.throughput[0].unit == "samples" and cell.memory is not None and cell.readings[0].probe == "host"
    [info] = report.workloads
    assert (info.optimizer, info.parameters, info.batch_size) == ("Adam", 4 * 8 + 8 + 8 * 3 + 3, 4)
    assert PLAIN in info.notes and report.backend == "tensorflow-metal" and report.predicted_with is not None
    assert report.environment is not None
    assert (report.environment.torch, report.environment.tensorflow) == (None, tf.__version__)
    [steps] = [one for one in cell.fallbacks if one.operator == "AddV2"]
    assert steps.method == "predicted" and steps.calls == 5 and steps.bytes == 5 * 3 * 8 and steps.native_since is None


def test_what_a_step_computes_is_what_keras_computes(file: Path) -> None:
    keras.utils.set_random_seed(0)
    layers = [keras.Input((4,)), keras.layers.Dense(1)]
    model, same = keras.Sequential(layers), keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    same.set_weights(model.get_weights())
    x, y = tf.ones((2, 4)), tf.zeros((2, 1))
    for one in (model, same):
        one.compile("sgd", "mse", jit_compile=False)
    steps = CpuDevice().open(given((model, x)), RunOptions(phase="training"))
    steps._arguments[1] = y  # type: ignore[attr-defined]
    steps.step()
    assert steps.phases().keys() == {"forward", "backward", "optimizer"}
    for _ in range(2):
        same.train_on_batch(x, y)
    for ours, theirs in zip(model.get_weights(), same.get_weights(), strict=True):
        assert abs(ours - theirs).max() < 1e-6
    steps.close()
    steps.close()


def given(made: Any) -> Any:
    """A workload of what a test made."""
    return SimpleNamespace(name="given", framework="tensorflow", build=lambda options: made, describe=dict)


def test_a_train_step_of_ones_own_has_one_phase(file: Path) -> None:
    [cell] = profiled(f"{file}:mine", "--phase", "training").cells
    assert cell.failure is None and cell.phases == {} and len(cell.steps) == 3


def test_a_function_and_xla(file: Path) -> None:
    report = profiled(f"{file}:step", "--batch-size", "5", "--compile")
    assert report.cells[0].batch_size == 5 and report.plan.compile
    assert report.workloads[0].architecture == "function"


def test_a_saved_model_is_run_only_if_it_is_trusted(tmp_path: Path) -> None:
    module = tf.Module()
    module.factor = tf.Variable(tf.ones((4, 4)))
    call = tf.function(lambda x: {"y": x @ module.factor}, input_signature=[tf.TensorSpec((None, 4), name="x")])
    tf.saved_model.save(module, str(tmp_path / "saved"), signatures=call.get_concrete_function())
    result = run_cli("profile", str(tmp_path / "saved"), process=False)
    assert result.code == 2 and "is a program: its operators may read and write files" in result.stderr
    report = profiled(str(tmp_path / "saved"), "--trust-remote-code")
    assert report.cells[0].failure is None and report.cells[0].batch_size == 1


def test_devices_are_those_of_the_framework(file: Path) -> None:
    def says(*flags: str) -> str:
        result = run_cli("profile", *flags, process=False)
        assert result.code == 2
        return result.stderr

    assert "unknown device 'mps'" in says(f"{file}:make", "--device", "mps")
    assert "runs workloads of torch only" in says(f"{file}:make", "--runner", "trainer", "--phase", "training")
    assert "of several frameworks" in says(f"{file}:make", "bert-base")
    assert [one.key for one in mpsprobe_devices()] == ["tensorflow:metal", "tensorflow:cuda", "tensorflow:cpu"]
    assert DeviceDeclaration("cpu", "a:b", "").key == "cpu"
    assert (MetalDevice().unavailable() or "").startswith("tensorflow-metal needs a Mac")
    assert (CudaDevice().unavailable() or "").startswith("tensorflow ")


@pytest.mark.parametrize("raised", [tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"), MemoryError()])
def test_out_of_memory(raised: BaseException) -> None:
    assert CpuDevice().is_out_of_memory(raised) and not CpuDevice().is_out_of_memory(ValueError("shapes"))


def test_results_are_fetched_once() -> None:
    device, fetched = CpuDevice(), []

    class Result:
        def numpy(self) -> None:
            fetched.append(self)

    device.wait_for([Result(), Result()])
    device.synchronize()
    device.synchronize()
    assert len(fetched) == 2


def test_a_function_is_not_trained() -> None:
    with pytest.raises(UsageError, match="is a function: it says itself what it runs"):
        CpuDevice().open(given((tf.function(tf.sin), tf.ones(2))), RunOptions(phase="training"))


def test_times_are_those_of_the_profile(tmp_path: Path) -> None:
    weights = tf.Variable(tf.ones((64, 64)))

    @tf.function
    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.name_scope("layer"):
            return tf.reduce_sum(tf.sin(x @ weights))

    step(tf.ones((64, 64)))
    tf.profiler.experimental.start(str(tmp_path))
    for number in range(3):
        with tf.profiler.experimental.Trace("train", step_num=number, _r=1):
            step(tf.ones((64, 64)))
    tf.profiler.experimental.stop()
    [file] = tmp_path.rglob("*.xplane.pb")

    result = run_cli("import", str(file), "--format", "json", process=False)
    [cell] = ProfileReport.model_validate_json(result.stdout).cells
    assert len(cell.steps) == 3
    calls: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    steps = []
    for plane in xplane_pb2.XSpace.FromString(file.read_bytes()).planes:
        for line in plane.lines:
            for event in line.events:
                metadata = plane.event_metadata[event.metadata_id]
                if metadata.display_name:
                    calls[metadata.display_name] += 1
                    spent[metadata.display_name] += event.duration_ps // 1000
                if metadata.name == "train":
                    steps.append(event.duration_ps // 1000)
    ours = {one.operator: one for one in cell.operators}
    assert ours.keys() == calls.keys() and "Sin" in ours and ours["Sin"].modules == ["layer"]
    assert {name: one.calls for name, one in ours.items()} == calls
    assert all(abs(one.host_ns - spent[name]) <= 2 * one.calls for name, one in ours.items())
    found = sorted(one.duration_ns for one in cell.steps)
    assert all(abs(one - theirs) <= 2 for one, theirs in zip(found, sorted(steps), strict=True))


STORIES = [story for page in OWN for story in stories(page, TENSORFLOW)]


def _starts(story: list[Block]) -> str:
    return next(block.place for block in story if block.is_run)


def test_each_block_that_needs_it_is_run() -> None:
    needing = [block for page in OWN for block in blocks(page) if TENSORFLOW in block.words]
    assert len(needing) >= 5 and all(block.is_run for block in needing)


@pytest.mark.parametrize("story", STORIES, ids=_starts)
def test_what_a_page_runs_prints_what_it_says(story: list[Block], tmp_path: Path) -> None:
    play(story, tmp_path / "here")
