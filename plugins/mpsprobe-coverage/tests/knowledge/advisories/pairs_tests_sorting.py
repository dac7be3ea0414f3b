"""Pairs of sorting."""

from __future__ import annotations

from pairs import Pair

PAIRS = {
    "unique-leading-one": Pair("2.0.1", lambda x: x.new_zeros(1, 1, 2).unique(), lambda x: x.new_zeros(2).unique()),
    "topk-none": Pair("1.13.1", lambda x: x.new_zeros(4).topk(0), lambda x: x.new_zeros(4).topk(1)),
}
