"""Who is blamed for an entry that PyTorch expects to fail."""

from __future__ import annotations

from mpsprobe_tables.audit.blame import Called, Observed, Status, blame


def _seen(entry: str, status: Status, *calls: Called, dtype: str = "int8", explained: bool = False) -> Observed:
    return Observed(entry, frozenset({entry}), dtype, status, frozenset(calls), explained)


ADD, SUM, SILU = ("aten::add.Tensor", "int8"), ("aten::sum", "int8>int64"), ("aten::silu", "int8")
SORT, SOLVE, FLOAT_SILU = ("aten::sort", "int8"), ("aten::_solve", "int8"), ("aten::silu", "float32")
POOL, MAXIMUM = ("aten::max_pool2d_with_indices", "int8>int64"), ("aten::maximum", "int8")
PUT, ADDED_UP = ("aten::_index_put_impl_", "int8"), ("aten::_index_put_impl_", "int8 with accumulate")
SORTS = [("aten::sort.stable", "int8"), ("aten::sort.stable", "int8 with descending")]
FAILS = {
    "the operator of its own name": ([_seen("silu", "fails", ADD, SUM, SILU)], {SILU: "silu"}),
    "what a passing entry calls is taken": (
        [_seen("silu", "fails", ADD, SILU), _seen("swish", "passes", SILU)],
        {ADD: "silu"},
    ),
    "nobody where nothing is left": ([_seen("sort", "fails", SORT), _seen("msort", "passes", SORT)], {}),
    "of several the nearest name": ([_seen("max_pool2d", "fails", POOL, ADD)], {POOL: "max_pool2d"}),
    "a part of a name is not near": ([_seen("max", "fails", POOL, MAXIMUM)], {MAXIMUM: "max"}),
    "the operator that explains most": (
        [_seen("a", "fails", SOLVE, ADD), _seen("b", "fails", SOLVE, SUM), _seen("c", "fails", SOLVE)],
        {SOLVE: "a"},
    ),
    "nobody by a guess": ([_seen("silu", "fails", ADD, SUM)], {}),
    "what an own entry refuses explains others": (
        [_seen("silu", "fails", SILU), _seen("net", "fails", SILU, ADD)],
        {SILU: "silu"},
    ),
    "not calls without the dtype of the entry": ([_seen("silu", "fails", FLOAT_SILU)], {}),
    "nobody for what the mechanism or the CPU explains": ([_seen("silu", "fails", SILU, explained=True)], {}),
    "the same operator may take other dtypes": (
        [_seen("silu", "fails", SILU), _seen("silu", "passes", FLOAT_SILU, dtype="float32")],
        {SILU: "silu"},
    ),
    "the flag that explains more entries": (
        [_seen("index_put", "fails", PUT, ADDED_UP), _seen("masked_put_accumulate", "fails", ADDED_UP)],
        {ADDED_UP: "index_put"},
    ),
    "a flag is not taken because the operator is": (
        [_seen("index_put", "fails", PUT, ADDED_UP), _seen("put", "passes", PUT)],
        {ADDED_UP: "index_put"},
    ),
    "each flag where no entry tells them apart": (
        [_seen("index_put", "fails", PUT, ADDED_UP)],
        dict.fromkeys((PUT, ADDED_UP), "index_put"),
    ),
    "each flag of a variant": ([_seen("sort", "fails", *SORTS)], dict.fromkeys(SORTS, "sort")),
}
UNCLAIMED = {
    # Where there is one alone, its name does not matter.
    "own operators": (
        [_seen("silu", "unclaimed", SILU, ADD), _seen("net", "unclaimed", SUM)],
        {SILU: "silu", SUM: "net"},
    ),
    "one of two": ([_seen("net", "unclaimed", SUM, ADD)], {}),
    "what passes elsewhere": ([_seen("silu", "unclaimed", SILU), _seen("swish", "passes", SILU)], {}),
    "one with several flags is alone": (
        [_seen("net", "unclaimed", PUT, ADDED_UP)],
        dict.fromkeys((PUT, ADDED_UP), "net"),
    ),
    "one with a flag, and another": ([_seen("net", "unclaimed", PUT, SUM)], {}),
}


def test_who_is_to_blame() -> None:
    found = {name: blame(seen).refused for name, (seen, _) in FAILS.items()}
    assert found == {name: refused for name, (_, refused) in FAILS.items()}


def test_what_is_not_claimed_blames_own_operators_alone() -> None:
    found = {name: blame(seen) for name, (seen, _) in UNCLAIMED.items()}
    assert {name: one.unclaimed for name, one in found.items()} == {name: one for name, (_, one) in UNCLAIMED.items()}
    assert not any(one.refused for one in found.values())


def test_what_passing_entries_call_is_taken() -> None:
    taken = {name: blame(seen).accepted for name, (seen, _) in FAILS.items()}
    assert {name: one for name, one in taken.items() if one} == {
        "what a passing entry calls is taken": {SILU},
        "nobody where nothing is left": {SORT},
        "the same operator may take other dtypes": {FLOAT_SILU},
        "a flag is not taken because the operator is": {PUT},
    }
