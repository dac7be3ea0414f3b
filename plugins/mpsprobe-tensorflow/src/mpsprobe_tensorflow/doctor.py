"""What ``mpsprobe doctor`` says about TensorFlow: does Apple's plugin load with it here, what is known of both."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from packaging.version import Version

from mpsprobe.declarations import DoctorFinding
from mpsprobe.suggestions import printable
from mpsprobe_tensorflow.tables import releases, table
from mpsprobe_tensorflow.tables.releases import all_advisories

MAC = re.compile(r"macos-(\d+(?:\.\d+)*)-(\w+)")
LEGACY = "TF_USE_LEGACY_KERAS"
FIRST_KERAS_3 = "2.16"  # "Keras 3 is the default Keras version" since: release notes of TensorFlow 2.16
SUCCESSOR = "https://github.com/IPNP-BIPN/tensorflow-metal-plugin"
Versions = Callable[[str], str | None]


def findings(
    environment: Mapping[str, Any], variables: Mapping[str, str], versions: Versions = table.installed
) -> Iterator[DoctorFinding]:
    """Findings about TensorFlow, if it is installed, from the fields of an ``Environment`` and variables."""
    tensorflow = next(filter(None, map(versions, ("tensorflow", "tensorflow-macos", "tensorflow-cpu"))), None)
    if tensorflow is None:
        return
    mac = MAC.match(str(environment.get("platform", "")))
    plugin = versions(table.PLUGIN)
    if mac is not None:
        yield from _plugin(tensorflow, plugin, mac, str(environment.get("python", "")))
    elif fitting := releases.releases_for(tensorflow):
        message = f"on a Mac, TensorFlow {printable(tensorflow)} goes with {table.PLUGIN} {fitting[-1]}"
        yield DoctorFinding("ok", message)
    else:
        yield DoctorFinding("note", _nothing_fits(tensorflow), _other_tensorflow())
    yield from _keras(tensorflow, variables, versions)
    if plugin is not None:
        for advisory in all_advisories():
            if advisory.concerns(plugin, tensorflow):
                hint = f"{advisory.workaround} ({', '.join(advisory.sources)})"
                yield DoctorFinding("note", f"tensorflow-metal, reported: {advisory.title}", hint)


def _plugin(tensorflow: str, plugin: str | None, mac: re.Match[str], python: str) -> Iterator[DoctorFinding]:
    """On a Mac: whether the plugin is there, loads, and is for this macOS."""
    shown, macos, architecture = printable(tensorflow), mac[1], mac[2]
    usable = [release for release in releases.releases_for(tensorflow) if _runs(release, architecture, python, macos)]
    hint = f"pip install {table.PLUGIN}=={usable[-1]}" if usable else _no_wheel(tensorflow, architecture)
    if plugin is None:
        message = f"{table.PLUGIN} is not installed: TensorFlow {shown} runs on the CPU"
        yield DoctorFinding("warning", message, hint)
        return
    fit = releases.fit_of(plugin)
    kind = releases.UNKNOWN if fit is None else fit.with_tensorflow(tensorflow)
    if fit is not None and kind == releases.FAILS:
        message = f"{table.PLUGIN} {plugin} does not load with TensorFlow {shown}: {fit.error}"
        yield DoctorFinding("error", message, f"{hint} ({', '.join(fit.sources)})")
    elif kind == releases.UNKNOWN:
        message = f"{table.PLUGIN} {printable(plugin)} is not known to go with TensorFlow {shown}"
        yield DoctorFinding("warning", message, f"If its import ends with 'Symbol not found': {hint}")
    else:
        yield DoctorFinding("ok", f"{table.PLUGIN} {plugin} goes with TensorFlow {shown} ({kind})")
    build = releases.wheel_for(plugin, architecture, python) if plugin in table.releases() else None
    if build is not None and build.macos_minimum and Version(macos) < Version(build.macos_minimum):
        message = f"{table.PLUGIN} {plugin} was built for macOS {build.macos_minimum}, and this is {macos}"
        yield DoctorFinding("error", message, "Update macOS." if hint.endswith(plugin) else hint)


def _runs(release: str, architecture: str, python: str, macos: str) -> bool:
    build = releases.wheel_for(release, architecture, python)
    return build is not None and (build.macos_minimum is None or Version(build.macos_minimum) <= Version(macos))


def _no_wheel(tensorflow: str, architecture: str) -> str:
    """Why pip says "No matching distribution found for tensorflow-metal" here."""
    fitting = releases.releases_for(tensorflow)
    if not fitting:
        return f"{_nothing_fits(tensorflow)}. {_other_tensorflow()}"
    pythons = releases.pythons(fitting[-1], architecture)
    where = f"Python {', '.join(pythons)}" if pythons else "Apple silicon alone"
    return (
        f"{table.PLUGIN} {fitting[-1]} goes with this TensorFlow, and has wheels for {where}: elsewhere, pip says "
        f"'No matching distribution found for {table.PLUGIN}'"
    )


def _nothing_fits(tensorflow: str) -> str:
    return f"no release of {table.PLUGIN} is known to load with TensorFlow {printable(tensorflow)}"


def _other_tensorflow() -> str:
    """The newest TensorFlow that the newest plugin goes with."""
    newest = releases.all_fits()[-1]
    best = max((*newest.documented, *newest.seen), key=Version)
    return (
        f"pip install 'tensorflow=={best}.*' {table.PLUGIN}=={newest.releases[-1]}, or see its successor: {SUCCESSOR}"
    )


def _keras(tensorflow: str, variables: Mapping[str, str], versions: Versions) -> Iterator[DoctorFinding]:
    """tf-keras is Keras 2, for those who cannot use Keras 3; it is released for each TensorFlow."""
    keras, legacy = versions("keras"), versions("tf-keras")
    wanted = releases.minor(tensorflow)
    asked = variables.get(LEGACY, "").lower() in ("1", "true")
    if asked and legacy is None and Version(wanted) >= Version(FIRST_KERAS_3):
        message = f"{LEGACY} is set and tf-keras is not installed: tf.keras cannot be imported"
        yield DoctorFinding("error", message, f"pip install 'tf-keras=={wanted}.*', or unset it.")
    elif legacy is not None and releases.minor(legacy) != wanted:
        message = f"tf-keras {printable(legacy)} was made for TensorFlow {releases.minor(legacy)}, and this is {wanted}"
        yield DoctorFinding("warning", message, f"pip install 'tf-keras=={wanted}.*'")
    if keras is None:
        return
    which = f"tf-keras {printable(legacy)}" if asked and legacy else f"Keras {printable(keras)}"
    yield DoctorFinding("ok", f"tf.keras is {which}")
