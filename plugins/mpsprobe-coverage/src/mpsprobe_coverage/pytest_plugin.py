"""For pytest: the marker ``mps`` and the fixture ``mps_coverage``. Imports nothing until a test asks for one."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Unpack

import pytest

if TYPE_CHECKING:
    from mpsprobe.schemas import CoverageReport, MatrixReport
    from mpsprobe_coverage.commands.functions import CoverageOptions

MARKER, FIXTURE, RELEASE = "mps", "mps_coverage", "mps_torch_release"
PROGRAM = "MPSPROBE_PROGRAM"
"""The variable that ``mpsprobe run`` sets for the programs that it runs."""
KEYS = ("torch", "allow", "fail_on", "macos")
"""What the marker takes, and the table ``[tool.mpsprobe.check]`` of ``pyproject.toml``."""
NOTHING = f"""nothing in it ran on "mps"
Make models and tensors with device="mps" in the body of the test, or call the fixture {FIXTURE}(model, inputs)."""
REGISTERED = f"""\
{MARKER}(torch="2.13,2.15", allow=["linalg_*"]): run the test on a virtual MPS device of these torch releases; \
what is on "mps" in it must have kernels there"""
_is_ours = pytest.StashKey[bool]()
_settings = pytest.StashKey[dict[str, Any]]()


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Say what the marker is, unless the project has one of that name."""
    names = [line.partition(":")[0].partition("(")[0].strip() for line in config.getini("markers")]
    config.stash[_is_ours] = MARKER not in names
    if config.stash[_is_ours]:
        config.addinivalue_line("markers", REGISTERED)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A marked test runs once for each release; where the fixture is asked for, it has all of them."""
    if not _runs_on_device(metafunc.definition, metafunc.fixturenames):
        return
    from mpsprobe.errors import MpsprobeError

    try:
        releases = _releases(_asked(metafunc.definition)["torch"])
    except MpsprobeError:  # the test itself says it; here it would end the whole run
        return
    if len(releases) > 1:
        metafunc.fixturenames.append(RELEASE)
        metafunc.parametrize(RELEASE, releases)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Run the body of a marked test on the device."""
    if not _runs_on_device(item, getattr(item, "fixturenames", ())):
        return (yield)
    with _told():
        asked = _asked(item)
        releases = _releases(asked["torch"])
        release = item.callspec.params[RELEASE] if len(releases) > 1 and hasattr(item, "callspec") else releases[0]
        from mpsprobe_coverage.commands.functions import refuse
        from mpsprobe_coverage.programs.observing import ObservedVirtual

        run = ObservedVirtual(release, asked["macos"])
    with run:
        result = yield
    with _told():
        report = run.report(item.name)
        if not report.operators and not report.not_judged:
            pytest.fail(NOTHING, pytrace=False)
        refuse(report, asked["fail_on"], asked["allow"])
    return result


@pytest.fixture
def mps_coverage(request: pytest.FixtureRequest) -> Callable[..., CoverageReport | MatrixReport]:
    """``mps_coverage(model, inputs)`` fails the test where an operator is missing or falls back; returns the report."""
    with _told():
        asked = _asked(request.node)

    def judge(
        model: object,
        inputs: object = None,
        *,
        torch: str | Sequence[str] | None = None,
        allow: Sequence[str] = (),
        **options: Unpack[CoverageOptions],
    ) -> CoverageReport | MatrixReport:
        import mpsprobe
        from mpsprobe.errors import MpsprobeError

        __tracebackhide__ = True
        options.setdefault("macos", asked["macos"])
        try:
            return mpsprobe.check(
                model,
                inputs,
                torch=_releases(asked["torch"] if torch is None else _checked({"torch": torch})["torch"]),
                allow=[*asked["allow"], *([allow] if isinstance(allow, str) else allow)],
                fail_on=asked["fail_on"],
                **options,
            )
        except MpsprobeError as error:  # shown with the line that calls the fixture, and with none of mpsprobe's
            raise pytest.fail.Exception(str(error)) from None

    return judge


def _runs_on_device(item: Any, fixtures: Sequence[str]) -> bool:
    """Whether the body of ``item`` does: it has the marker, and does not call the fixture instead.

    Under ``mpsprobe run`` it has a device already, and that command judges what it does.
    """
    marked = PROGRAM not in os.environ and item.config.stash[_is_ours] and item.get_closest_marker(MARKER) is not None
    return marked and FIXTURE not in fixtures


def _asked(item: Any) -> dict[str, Any]:
    """What the marker asks for, else the project; both of their allow-lists count."""
    from mpsprobe.errors import UsageError
    from mpsprobe.settings import read_settings
    from mpsprobe_coverage.commands.functions import FAIL_ON

    stash = item.config.stash
    if _settings not in stash:
        stash[_settings] = _checked(read_settings(item.config.rootpath).get("check", {}))
    marker = item.get_closest_marker(MARKER) if item.config.stash[_is_ours] else None
    own = {} if marker is None else _checked(marker.kwargs)
    if marker is not None and marker.args:
        raise UsageError(f"the marker {MARKER} takes keywords only", f'@pytest.mark.{MARKER}(torch="2.13", allow=[…])')
    usual = {"torch": "installed", "macos": None, "fail_on": FAIL_ON}
    allow = [*stash[_settings].get("allow", ()), *own.get("allow", ())]
    return {**usual, **stash[_settings], **own, "allow": allow}


def _checked(given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` with a list for each of ``allow`` and ``fail_on``, and one text for ``torch``."""
    from mpsprobe.errors import UnknownName
    from mpsprobe_coverage.commands.functions import in_quotes

    checked: dict[str, Any] = {}
    for name, value in given.items():
        if name not in KEYS:
            raise UnknownName("setting", name, KEYS, "The marker and [tool.mpsprobe.check] take: " + ", ".join(KEYS))
        texts = value.split(",") if isinstance(value, str) else value
        texts = in_quotes(texts) if name == "torch" else [str(text) for text in texts]
        checked[name] = ",".join(texts) if name in ("torch", "macos") else [text.strip() for text in texts]
    return checked


def _releases(text: str) -> list[str]:
    """The releases to judge, as they were written."""
    if text == "all":
        from mpsprobe_coverage.knowledge.kernels.mps import MPS_FAMILY

        return list(MPS_FAMILY.releases)
    return [release.strip() for release in text.split(",")]


@contextmanager
def _told() -> Iterator[None]:
    """An error of mpsprobe fails the test by its message: frames of mpsprobe are none of the test's."""
    from mpsprobe.errors import MpsprobeError

    __tracebackhide__ = True
    try:
        yield
    except MpsprobeError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
