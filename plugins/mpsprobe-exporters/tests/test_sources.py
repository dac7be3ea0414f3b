"""Links are made of what is known to be a library's file, an issue or an address, and of nothing else."""

from __future__ import annotations

import re

from hostile import on_any_text

from mpsprobe.schemas import Environment
from mpsprobe_exporters.sources import lines, reference

HERE = Environment(mpsprobe="0", python="3", platform="x", torch="2.13.0", transformers="5.23.0")
SAFE = re.compile(r"https?://[A-Za-z0-9._~%#?&=+:@/-]+")


def test_lines_of_libraries_have_an_address() -> None:
    modeling = "transformers/models/bert/modeling_bert.py"
    urls = {
        "torch/nn/modules/linear.py:125": "pytorch/pytorch/blob/v2.13.0/torch/nn/modules/linear.py#L125",
        f"{modeling}:164": f"huggingface/transformers/blob/v5.23.0/src/{modeling}#L164",
        **dict.fromkeys(("torch/../secrets.py:1", "/home/user/torch/nn.py:1"), ""),
        **dict.fromkeys(("C:\\project\\model.py:12", "torch/nn.py"), ""),
    }
    for site, url in urls.items():
        [place] = lines([site], HERE)
        assert place.url == (f"https://github.com/{url}" if url else "") and place.full == site
    nightly = HERE.model_copy(update={"torch": "2.16.0.dev20261101"})
    assert lines(["torch/nn/modules/linear.py:125"], nightly)[0].url == "", "an unreleased library has none"


def test_references() -> None:
    assert reference("pytorch/pytorch#195910").url == "https://github.com/pytorch/pytorch/issues/195910"
    assert reference("https://example.org/report").url == "https://example.org/report"
    assert {reference(one).url for one in ("javascript:alert(1)", "see there", "http://a b", "ftp://x/y")} == {""}


@on_any_text
def test_no_string_becomes_another_link(text: str) -> None:
    for place in (reference(text), reference(f"https://{text}"), *lines([text, f"torch/{text}.py:1"], HERE)):
        assert not place.url or SAFE.fullmatch(place.url)
