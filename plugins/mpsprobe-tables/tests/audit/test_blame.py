"""Who is blamed for an entry that PyTorch expects to fail."""

from __future__ import annotations

from mpsprobe_tables.audit.blame import Called, Observed, Status, blame


def _seen(entry: str, status: Status, *calls: Called, dtype: str = "int8", explained: bool = False) -> Observed:
    return Observed(entry, frozenset({entry}), dtype, status, frozenset(calls), explained)


def _fails(entry: str, *calls: Called) -> Observed:
    return _seen(entry, "fails", *calls)


ADD, SUM, SILU = ("aten::add.Tensor", "int8"), ("aten::sum", "int8>int64"), ("aten::silu", "int8")
SORT, SOLVE, FLOAT_SILU = ("aten::sort", "int8"), ("aten::_solve", "int8"), ("aten::silu", "float32")
POOL, MAXIMUM = ("aten::max_pool2d_with_indices", "int8>int64"), ("aten::maximum", "int8")
PUT, ADDED_UP = ("aten::_index_put_impl_", "int8"), ("aten::_index_put_impl_", "int8 with accumulate")
SORTS = [("aten::sort.stable", "int8"), ("aten::sort.stable", "int8 with descending")]
SWISH, PUT_PASSES = _seen("swish", "passes", SILU), _seen("put", "passes", PUT)
BOTH = dict.fromkeys((PUT, ADDED_UP), "index_put")
FAILS: dict[str, tuple[list[Observed], dict[Called, str]]] = {
    "the operator of its own name": ([_fails("silu", ADD, SUM, SILU)], {SILU: "silu"}),
    "what passes elsewhere is taken": ([_fails("silu", ADD, SILU), SWISH], {ADD: "silu"}),
    "nobody where nothing is left": ([_fails("sort", SORT), _seen("msort", "passes", SORT)], {}),
    "of several the nearest name": ([_fails("max_pool2d", POOL, ADD)], {POOL: "max_pool2d"}),
    "a part of a name is not near": ([_fails("max", POOL, MAXIMUM)], {MAXIMUM: "max"}),
    "what explains most": ([_fails("a", SOLVE, ADD), _fails("b", SOLVE, SUM), _fails("c", SOLVE)], {SOLVE: "a"}),
    "nobody by a guess": ([_fails("silu", ADD, SUM)], {}),
    "what an own entry refuses explains others": ([_fails("silu", SILU), _fails("net", SILU, ADD)], {SILU: "silu"}),
    "not calls without the dtype of the entry": ([_fails("silu", FLOAT_SILU)], {}),
    "nobody for what the mechanism or the CPU explains": ([_seen("silu", "fails", SILU, explained=True)], {}),
    "other dtypes may be taken": (
        [_fails("silu", SILU), _seen("silu", "passes", FLOAT_SILU, dtype="float32")],
        {SILU: "silu"},
    ),
    "the flag that explains more entries": (
        [_fails("index_put", PUT, ADDED_UP), _fails("masked_put_accumulate", ADDED_UP)],
        {ADDED_UP: "index_put"},
    ),
    "a flag is not taken with its operator": (
        [_fails("index_put", PUT, ADDED_UP), PUT_PASSES],
        {ADDED_UP: "index_put"},
    ),
    "each flag where no entry tells them apart": ([_fails("index_put", PUT, ADDED_UP)], BOTH),
    "each flag of a variant": ([_fails("sort", *SORTS)], dict.fromkeys(SORTS, "sort")),
}
UNCLAIMED: dict[str, tuple[list[Observed], dict[Called, str]]] = {
    "the operator of its own name": ([_seen("silu", "unclaimed", SILU, ADD)], {SILU: "silu"}),
    "the only one, whatever its name": ([_seen("net", "unclaimed", SUM)], {SUM: "net"}),
    "one of two": ([_seen("net", "unclaimed", SUM, ADD)], {}),
    "what passes elsewhere": ([_seen("silu", "unclaimed", SILU), SWISH], {}),
    "one with several flags": ([_seen("net", "unclaimed", PUT, ADDED_UP)], dict.fromkeys((PUT, ADDED_UP), "net")),
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
        "what passes elsewhere is taken": {SILU},
        "nobody where nothing is left": {SORT},
        "other dtypes may be taken": {FLOAT_SILU},
        "a flag is not taken with its operator": {PUT},
    }
