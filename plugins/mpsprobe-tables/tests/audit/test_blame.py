"""Who is blamed for an entry that PyTorch expects to fail."""

from __future__ import annotations

from mpsprobe_tables.audit.blame import Called, Observed, Status, blame


def _seen(entry: str, status: Status, *calls: Called, dtype: str = "int8", explained: bool = False) -> Observed:
    return Observed(entry, frozenset({entry}), dtype, status, frozenset(calls), explained)


ADD, SUM, SILU = ("aten::add.Tensor", "int8"), ("aten::sum", "int8>int64"), ("aten::silu", "int8")


def test_the_operator_of_its_own_name_is_to_blame() -> None:
    found = blame([_seen("silu", "fails", ADD, SUM, SILU)])
    assert found.refused == {SILU: "silu"}


def test_what_a_passing_entry_calls_is_taken() -> None:
    found = blame([_seen("silu", "fails", ADD, SILU), _seen("swish", "passes", SILU)])
    assert found.accepted == {SILU}
    assert found.refused == {ADD: "silu"}


def test_nobody_is_to_blame_where_nothing_is_left() -> None:
    found = blame([_seen("sort", "fails", ("aten::sort", "int8")), _seen("msort", "passes", ("aten::sort", "int8"))])
    assert found.refused == {}


def test_of_several_the_nearest_name_is_to_blame() -> None:
    pool = ("aten::max_pool2d_with_indices", "int8>int64")
    assert blame([_seen("max_pool2d", "fails", pool, ADD)]).refused == {pool: "max_pool2d"}
    assert blame([_seen("max", "fails", pool, ("aten::maximum", "int8"))]).refused == {("aten::maximum", "int8"): "max"}


def test_the_operator_that_explains_most_is_to_blame() -> None:
    solve = ("aten::_solve", "int8")
    found = blame([_seen("a", "fails", solve, ADD), _seen("b", "fails", solve, SUM), _seen("c", "fails", solve)])
    assert found.refused == {solve: "a"}


def test_nobody_is_to_blame_by_a_guess() -> None:
    assert blame([_seen("silu", "fails", ADD, SUM)]).refused == {}


def test_an_operator_that_an_own_entry_refuses_explains_others() -> None:
    found = blame([_seen("silu", "fails", SILU), _seen("net", "fails", SILU, ADD)])
    assert found.refused == {SILU: "silu"}


def test_calls_without_the_dtype_of_the_entry_are_not_to_blame() -> None:
    assert blame([_seen("silu", "fails", ("aten::silu", "float32"))]).refused == {}


def test_what_the_mechanism_or_the_cpu_explains_blames_nobody() -> None:
    assert blame([_seen("silu", "fails", SILU, explained=True)]).refused == {}


def test_the_same_operator_may_take_other_dtypes() -> None:
    other = ("aten::silu", "float32")
    found = blame([_seen("silu", "fails", SILU), _seen("silu", "passes", other, dtype="float32")])
    assert (found.refused, found.accepted) == ({SILU: "silu"}, {other})


def test_what_is_not_claimed_blames_own_operators_alone() -> None:
    found = blame([_seen("silu", "unclaimed", SILU, ADD), _seen("net", "unclaimed", SUM)])
    assert found.unclaimed == {SILU: "silu", SUM: "net"}  # where there is one alone, its name does not matter
    assert found.refused == {}
    assert blame([_seen("net", "unclaimed", SUM, ADD)]).unclaimed == {}
    assert blame([_seen("silu", "unclaimed", SILU), _seen("swish", "passes", SILU)]).unclaimed == {}


PUT, ADDED_UP = ("aten::_index_put_impl_", "int8"), ("aten::_index_put_impl_", "int8 with accumulate")


def test_the_flag_is_to_blame_that_explains_more_entries() -> None:
    found = blame([_seen("index_put", "fails", PUT, ADDED_UP), _seen("masked_put_accumulate", "fails", ADDED_UP)])
    assert found.refused == {ADDED_UP: "index_put"}


def test_a_flag_is_not_taken_because_the_operator_is() -> None:
    found = blame([_seen("index_put", "fails", PUT, ADDED_UP), _seen("put", "passes", PUT)])
    assert found.refused == {ADDED_UP: "index_put"}
    assert found.accepted == {PUT}


def test_each_flag_is_to_blame_where_no_entry_tells_them_apart() -> None:
    refused = dict.fromkeys((PUT, ADDED_UP), "index_put")
    assert blame([_seen("index_put", "fails", PUT, ADDED_UP)]).refused == refused
    own = [("aten::sort.stable", "int8"), ("aten::sort.stable", "int8 with descending")]
    assert blame([_seen("sort", "fails", *own)]).refused == dict.fromkeys(own, "sort")


def test_an_operator_with_several_flags_is_alone() -> None:
    assert blame([_seen("net", "unclaimed", PUT, ADDED_UP)]).unclaimed == dict.fromkeys((PUT, ADDED_UP), "net")
    assert blame([_seen("net", "unclaimed", PUT, SUM)]).unclaimed == {}
