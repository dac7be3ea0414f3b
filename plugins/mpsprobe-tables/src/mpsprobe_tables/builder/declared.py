"""The second source: the operators that a release's native_functions.yaml declares for MPS, and the composite ones.

A small reader of the form that this one file has had since 1.12: a list of flat mappings, ``dispatch`` one level
deeper. Anything that does not have this form is an error, not a guess.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from mpsprobe.errors import TableError

FUNCTION = re.compile(r"- func: (\w+(?:\.\w+)?)\(")
PROPERTY = re.compile(r"  (\w+):(?: (.*))?$")
DISPATCH = re.compile(r"    ([\w, ]+): ?(\S.*)$")


@dataclass(slots=True)
class DeclaredOperator:
    """One entry: its dispatch keys, and the operator that ``structured_delegate`` says it takes its kernels from."""

    name: str
    keys: set[str] = field(default_factory=set)
    delegate: str | None = None
    has_dispatch: bool = False  # an empty one ("dispatch: {}") says: no kernel at all


def parse_native_functions(text: str) -> dict[str, DeclaredOperator]:
    """Operators by name (``add.Tensor``) in the order of the file.

    Raises:
        TableError: the text is not a native_functions.yaml.
    """
    operators: dict[str, DeclaredOperator] = {}
    current: DeclaredOperator | None = None
    in_dispatch = False
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"(^|\s)#.*$", "", raw).rstrip()
        if not line:
            continue
        if match := FUNCTION.match(line):
            current = operators[match[1]] = DeclaredOperator(match[1])
            in_dispatch = False
        elif current is None:
            raise TableError(f"native_functions.yaml, line {number}: not an entry")
        elif match := DISPATCH.match(line):
            if in_dispatch:
                current.keys.update(key.strip() for key in match[1].split(","))
        elif match := PROPERTY.match(line):
            in_dispatch = match[1] == "dispatch"
            current.has_dispatch |= in_dispatch
            if match[1] == "structured_delegate":
                current.delegate = (match[2] or "").strip()
    if not operators:
        raise TableError("native_functions.yaml declares no operator")
    return operators


def declared_kernels(operators: dict[str, DeclaredOperator]) -> dict[str, set[str]]:
    """Dispatch key → operators (``aten::…``), for the keys of MPS and the composite ones.

    Structured delegates have the kernels of their delegate; without ``dispatch`` it is CompositeImplicitAutograd.
    What torchgen adds by itself (``autogen``, kernels of structured operators for no backend) is not in the file.
    """
    kernels: dict[str, set[str]] = {}
    for operator in operators.values():
        delegate = operators.get(operator.delegate) if operator.delegate else None
        keys = {key for key in operator.keys if key.endswith("MPS") or key.startswith("Composite")}
        if delegate is not None and "MPS" in delegate.keys:  # torchgen generates no structured kernel for sparse keys
            keys.add("MPS")
        if not operator.has_dispatch and operator.delegate is None:
            keys.add("CompositeImplicitAutograd")
        for key in keys:
            kernels.setdefault(key, set()).add(f"aten::{operator.name}")
    return kernels
