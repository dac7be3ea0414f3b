"""Resolves the targets of declarations, makes their objects and checks them against their protocols and contracts."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from mpsprobe.errors import MissingPackage, MpsprobeError
from mpsprobe.plugins.catalogue import KINDS
from mpsprobe_devkit.checking.child.nearby import nearest_attributes, nearest_modules
from mpsprobe_devkit.checking.child.protocols import differences
from mpsprobe_devkit.checking.child.telling import Teller


def run(request: dict[str, Any], teller: Teller) -> None:
    """Tell what is wrong behind each of the declarations in ``request``."""
    resolved: dict[str, Any] = {}
    held: set[tuple[str, str]] = set()
    left_out: dict[str, list[str]] = {}
    for one in request["declarations"]:
        declaration = KINDS[one["kind"]][1](**_fields(one["fields"]))
        what, where = f"the {one['kind']} '{declaration.name}'", one["where"]
        if not _is_target(declaration.target):
            continue
        if declaration.target not in resolved:
            resolved[declaration.target] = None
            with teller.step(f"target:{declaration.target}", where=where, limit=request["target_limit"]) as wanted:
                if wanted:
                    resolved[declaration.target] = _resolved(declaration.target, what, where, teller)
        target = resolved[declaration.target]
        if target is None:
            continue
        sound = False
        with teller.step(
            f"make:{one['kind']}:{declaration.name}", where=where, limit=request["target_limit"]
        ) as wanted:
            if wanted:
                sound = _is_sound(one["kind"], declaration, target, what, teller)
        if sound and one["sound"] and request["contracts"] and _has_contract(one["kind"]):
            if (one["kind"], declaration.target) in held:
                left_out.setdefault(declaration.target, []).append(declaration.name)
                continue
            held.add((one["kind"], declaration.target))
            with teller.step(
                f"contract:{one['kind']}:{declaration.name}", where=where, limit=request["contract_limit"]
            ) as wanted:
                if wanted:
                    _hold_to_contract(one["kind"], declaration, what, teller, teller.place_of_target(target) or where)
    for name, names in left_out.items():
        teller.tell(note=f"the contract of {len(names)} more of {name}, one of which was held to it")


def _is_target(target: str) -> bool:
    module, colon, attribute = target.partition(":")
    return bool(colon) and all(f"{module}.{attribute}".split("."))


def _fields(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in plain.items()}


def _resolved(target: str, what: str, where: str, teller: Teller) -> Any:
    """The attribute that ``target`` names; ``None`` after a finding."""
    module, _, attribute = target.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            near = nearest_modules(module)
            message = f"{what} names {target}, and there is no module {error.name}"
            teller.tell(absent=error.name, message=message, where=where, near=near)
        else:
            lacking = (error.name or "?").partition(".")[0]
            place = teller.place_of_error(error) or where
            teller.tell(
                lacking=lacking, message=f"{what} needs the package {lacking}, which is not installed", where=place
            )
        return None
    except BaseException as error:  # noqa: BLE001 - the plugin's
        _failed(f"importing {module} for {what}", error, where, teller)
        return None
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError:
        near = nearest_attributes(importlib.import_module(module), attribute)
        hint = f"It has {' and '.join(near)}." if near else None
        teller.found("target-unresolved", f"{what}: {module} has no attribute '{attribute}'", where, hint)
        return None
    except Exception as error:  # noqa: BLE001 - a module's __getattr__
        _failed(f"taking {attribute} of {module} for {what}", error, where, teller)
        return None
    if found is None:
        teller.found("wrong-protocol", f"{what}: {target} is None", where)
    return found


def _failed(doing: str, error: BaseException, where: str, teller: Teller) -> None:
    place = teller.place_of_error(error) or where
    if isinstance(error, MissingPackage):
        teller.tell(lacking=error.distribution, message=f"{doing}: {error.message}", where=place)
    elif isinstance(error, ModuleNotFoundError) and error.name:
        lacking = error.name.partition(".")[0]
        teller.tell(
            lacking=lacking, message=f"{doing} needs the package {lacking}, which is not installed", where=place
        )
    elif isinstance(error, SystemExit):
        teller.found("target-exits", f"{doing} calls exit ({error.code!r})", place)
    elif isinstance(error, MpsprobeError):
        teller.found("target-fails", f"{doing} raises {type(error).__name__}: {error.message}", place, error.hint)
    else:
        teller.found("target-fails", f"{doing} raises {teller.described(error)}", place)


def _is_sound(kind: str, declaration: Any, target: Any, what: str, teller: Teller) -> bool:
    """Make the object as the registry does; whether it is what it should be."""
    where = teller.place_of_target(target)
    try:
        if kind == "workload":
            made = target(declaration.name)
        elif kind != "command" and isinstance(target, type):
            made = target()
        else:
            made = target
    except BaseException as error:  # noqa: BLE001 - the plugin's
        _failed(f"making {what}", error, where, teller)
        return False
    wrong = differences(kind, declaration, made)
    for one in wrong:
        teller.found("wrong-protocol", f"{what} {one}", where)
    return not wrong


def _has_contract(kind: str) -> bool:
    if kind == "command":
        return False
    from mpsprobe_devkit.testing import contracts  # costs more than a command needs

    return hasattr(contracts, f"{kind}_contract")


def _hold_to_contract(kind: str, declaration: Any, what: str, teller: Teller, where: str) -> None:
    if kind == "scanner" and set(declaration.frameworks) != {"torch"}:
        foreign = sorted({*declaration.frameworks} - {"torch"})
        teller.tell(note=f"the contract of {what} for {', '.join(foreign)}: only its author has something to scan")
        if "torch" not in declaration.frameworks:
            return
        declaration = replace(declaration, frameworks=("torch",))
    from mpsprobe_devkit.testing.contracts import broken_clauses

    try:
        broken = broken_clauses(declaration)
    except MissingPackage as error:
        teller.tell(lacking=error.distribution, message=f"the contract of {what}: {error.message}", where=where)
        return
    except BaseException as error:  # noqa: BLE001 - the plugin's: a clause lets out what it did not expect
        message = f"{what}: the contract ends with {teller.described(error)}"
        teller.found("contract-broken", message, teller.place_of_error(error) or where)
        return
    for one in broken:
        teller.found("contract-broken", f"{what}: {one.clause}: {one.problem}", where)
