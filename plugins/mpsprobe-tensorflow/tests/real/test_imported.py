"""What ``mpsprobe import`` makes of TensorFlow's own profile, compared with what protobuf reads there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from mpsprobe.schemas import ProfileReport
from mpsprobe_devkit.testing import run_cli


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
