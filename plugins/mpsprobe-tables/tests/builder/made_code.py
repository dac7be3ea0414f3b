"""Code of functions that ask for the dtype of a tensor, instruction by instruction (Arm's manual, DDI 0487)."""

from __future__ import annotations

from made_library import Call, Step, Words

DTYPE_AT = 0xA8  # of the dtype in the TensorImpl that these functions are made for
CHECK_FAIL = "__ZN3c106detail14torchCheckFailEPKcS2_jRKNSt3__112basic_stringIcEE"
LS, EQ = 9, 0  # conditions


def load_dtype(tensor: int, into: int = 8) -> Words:
    """``into = tensor.scalar_type()``, where the register ``tensor`` holds a ``const Tensor&``."""
    return Words((0xF9400000 | tensor << 5 | into, 0x79400000 | (DTYPE_AT // 2) << 10 | into << 5 | into))


def load_count(tensor: int, into: int = 8) -> Words:
    """``into = tensor.numel()``."""
    return Words((0xF9400000 | tensor << 5 | into, 0xF9400000 | ((DTYPE_AT - 8) // 8) << 10 | into << 5 | into))


def subtract(number: int, register: int = 8) -> Words:
    """``register -= number``, in 32 bits."""
    return Words((0x51000000 | number << 10 | register << 5 | register,))


def compare(number: int, register: int = 8) -> Words:
    """``cmp register, #number``."""
    return Words((0x71000000 | number << 10 | register << 5 | 31,))


def jump_if(condition: int, by: int) -> Words:
    """``b.condition``, ``by`` instructions on from this one."""
    return Words((0x54000000 | (by & 0x7FFFF) << 5 | condition,))


def jump_if_zero(by: int, register: int = 8) -> Words:
    """``cbz register``."""
    return Words((0xB4000000 | (by & 0x7FFFF) << 5 | register,))


def jump(by: int) -> Words:
    """``b``."""
    return Words((0x14000000 | by & 0x3FFFFFF,))


RETURN = Words((0xD65F03C0,))
TOO_MANY = [load_dtype(0), compare(0x2F), jump_if(2, 2), RETURN]
"""How a function begins that asks for a dtype: is it one of 47 at all. By it the reader finds ``DTYPE_AT``."""


def refuses_complex(tensor: int) -> list[Step]:
    """Raises where ``8 <= dtype <= 10``."""
    return [load_dtype(tensor), subtract(8), compare(2), jump_if(LS, 2), RETURN, Call(CHECK_FAIL)]
