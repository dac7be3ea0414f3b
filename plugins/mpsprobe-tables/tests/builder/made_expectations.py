"""Small versions of the files of a wheel that say what PyTorch's tests expect."""

from __future__ import annotations

LISTS = """\
import torch

if torch.backends.mps.is_available():

    def mps_ops_modifier(ops, device_type="mps", xfail_exclusion=None, sparse=False):
        if xfail_exclusion is None:
            xfail_exclusion = []
        SUPPORTED_COMPLEX_OPS = {"add", "abs"}
        AFTER_MACOS_14_0_SUPPORTED_COMPLEX_OPS = {"neg"}
        MACOS_BEFORE_13_3_XFAILLIST = {"cumsum": [torch.int8]}
        MACOS_13_3_XFAILLIST = {"sort": [torch.half]}
        UNIMPLEMENTED_XFAILLIST: dict[str, list | None] = {
            "put": None,
            "silu": [torch.short, torch.uint8],
            "dot": [torch.int64] if MACOS_VERSION < 14.0 else [],
            "round": [torch.bfloat16] if MACOS_VERSION >= 14.0 else None,
        }
        UNIMPLEMENTED_XFAILLIST_SPARSE = {"only_sparse": None}
        if MACOS_VERSION < 15.0:
            UNIMPLEMENTED_XFAILLIST.update({"old": None})
        if MACOS_VERSION >= 15.0:
            UNIMPLEMENTED_XFAILLIST.update({"new": None})
        if sparse:
            UNIMPLEMENTED_XFAILLIST.update(UNIMPLEMENTED_XFAILLIST_SPARSE)
        UNDEFINED_XFAILLIST = {"put": [torch.float32]}
        EMPTY_OPS_SKIPLIST = {"empty": None}

        def addDecorator(op, d):
            op.decorators = op.decorators + (d,)

        for op in ops:
            key = op.name + op.variant_test_name
            addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=[torch.double, torch.cdouble]))
            if sparse:
                addDecorator(op, DecorateInfo(unittest.skip("sparse"), dtypes=[torch.complex128]))
            if key in EMPTY_OPS_SKIPLIST:
                addDecorator(op, DecorateInfo(unittest.skip("Skipping."), dtypes=EMPTY_OPS_SKIPLIST[key]))
            for xfaillist in [UNIMPLEMENTED_XFAILLIST, UNDEFINED_XFAILLIST]:
                if key in xfaillist and key not in xfail_exclusion:
                    addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=xfaillist[key]))
            if (
                key in MACOS_BEFORE_13_3_XFAILLIST
                and key not in xfail_exclusion
                and (torch.backends.mps.is_macos13_or_newer() and MACOS_VERSION < 13.3)
            ):
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=MACOS_BEFORE_13_3_XFAILLIST[key]))
            if key in MACOS_13_3_XFAILLIST and (MACOS_VERSION >= 13.3):
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=MACOS_13_3_XFAILLIST[key]))
            if key not in SUPPORTED_COMPLEX_OPS and (
                key not in AFTER_MACOS_14_0_SUPPORTED_COMPLEX_OPS or MACOS_VERSION < 14.0
            ):
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=[torch.complex32, torch.complex64]))
        return ops

    def mps_ops_grad_modifier(ops):
        XFAILLIST_GRAD = {"sort": [torch.float16, torch.float32]}
        SKIPLIST_GRAD = {"neg": [torch.half]}

        for op in ops:
            key = op.name + op.variant_test_name
            if key in XFAILLIST_GRAD:
                addDecorator(op, DecorateInfo(unittest.expectedFailure, dtypes=XFAILLIST_GRAD[key]))
            if key in SKIPLIST_GRAD:
                addDecorator(op, DecorateInfo(unittest.skip, dtypes=SKIPLIST_GRAD[key]))
        return ops

    def mps_ops_error_inputs_modifier(ops):
        XFAILLIST = {"amax"}

        for op in ops:
            key = op.name + op.variant_test_name
            if key in XFAILLIST:
                addDecorator(op, DecorateInfo(unittest.expectedFailure))
        return ops
else:

    def mps_ops_modifier(ops, device_type="mps", xfail_exclusion=None, sparse=False):
        return ops
"""

ENTRIES = """\
_shared = (
    DecorateInfo(unittest.skip("Skipped!"), 'TestConsistency', device_type='mps', dtypes=(torch.bool,)),
)


def make_window(name):
    return OpInfo(name)


def make_special(variant_test_name):
    return OpInfo('special', dtypesIfMPS=floating_types())


def sample(op_info):
    return [1, 2]


op_db: list[OpInfo] = [
    OpInfo('abs', dtypes=all_types(), skips=(
        DecorateInfo(unittest.expectedFailure, 'TestCommon', device_type='mps'),
        DecorateInfo(toleranceOverride({}), 'TestConsistency', 'test_output_match', device_type='mps'),
        DecorateInfo(unittest.expectedFailure, 'TestConsistency', device_type='cuda'),
        DecorateInfo(unittest.skip("old"), 'TestConsistency', active_if=lambda _: MACOS_VERSION < 14.0),
    )),
    UnaryUfuncInfo('neg', dtypesIfMPS=all_types_and(torch.half, torch.bool),
                   backward_dtypesIfMPS=floating_types_and(torch.half),
                   skips=_shared + (DecorateInfo(unittest.expectedFailure, 'TestConsistency', 'test_output_grad_match',
                                                 device_type='mps', dtypes=(torch.float32,)),)),
    OpInfo('sort', dtypesIfMPS=(
        _dispatch_dtypes(t for t in all_types_and(torch.float16) if t != torch.int64)
        if MACOS_VERSION < 15.0 or IS_APPLE_M1 else integral_types_and(torch.float16)), decorators=[onlyCUDA]),
    BinaryUfuncInfo('div', variant_test_name='no_rounding_mode', dtypesIfMPS=custom_types(torch.float16)),
    *(OpInfo('poly', variant_test_name=f'n_{n}', dtypesIfMPS=floating_types()) for n in (1, 2)),
    make_window(name='window.hann'),
    make_special(variant_test_name='special_1'),
]
op_db += opinfo.definitions.op_db
"""

EMPTY_ENTRIES = "op_db: list[OpInfo] = []\n"


def expectation_members(lists: str = LISTS, entries: str = ENTRIES) -> dict[str, str | bytes | None]:
    """The members of a wheel, for ``make_wheel(members=…)``."""
    root = "torch/testing/_internal"
    definitions = {f"{root}/opinfo/definitions/{n}.py": EMPTY_ENTRIES for n in ("fft", "linalg", "signal", "special")}
    return {
        f"{root}/common_mps.py": lists,
        f"{root}/common_methods_invocations.py": entries,
        **definitions,
        f"{root}/opinfo/definitions/_masked.py": EMPTY_ENTRIES,
    }
