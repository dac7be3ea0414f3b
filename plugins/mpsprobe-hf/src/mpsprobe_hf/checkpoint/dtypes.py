"""The dtypes of stored tensors: what each format calls them, and how large an element is."""

from __future__ import annotations

from collections.abc import Mapping

BITS: Mapping[str, int] = {
    "bool": 8,
    "uint8": 8,
    "int8": 8,
    "uint16": 16,
    "int16": 16,
    "uint32": 32,
    "int32": 32,
    "uint64": 64,
    "int64": 64,
    "float16": 16,
    "bfloat16": 16,
    "float32": 32,
    "float64": 64,
    "complex32": 32,
    "complex64": 64,
    "complex128": 128,
    "float8_e4m3fn": 8,
    "float8_e4m3fnuz": 8,
    "float8_e5m2": 8,
    "float8_e5m2fnuz": 8,
    "float8_e8m0fnu": 8,
    "float4_e2m1fn_x2": 8,
    "quint8": 8,
    "qint8": 8,
    "qint32": 32,
    "quint4x2": 8,
    "quint2x4": 8,
}
"""Bits of an element, by torch's name of the dtype (``torch.finfo``, ``torch.iinfo``; the last ones are quantized)."""
SAFETENSORS: Mapping[str, str] = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "U16": "uint16",
    "I16": "int16",
    "U32": "uint32",
    "I32": "int32",
    "U64": "uint64",
    "I64": "int64",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E8M0": "float8_e8m0fnu",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F4": "float4_e2m1fn_x2",
    "F6_E2M3": "float6_e2m3",
    "F6_E3M2": "float6_e3m2",
}
"""The dtypes of the format (``Dtype`` of the safetensors crate, 0.8) → torch's; torch has none of six bits."""
SAFETENSORS_BITS: Mapping[str, int] = {"F4": 4, "F6_E2M3": 6, "F6_E3M2": 6}
"""Bits of an element where these differ from those of the dtype in torch."""
STORAGES: Mapping[str, str] = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
    "ComplexFloatStorage": "complex64",
    "ComplexDoubleStorage": "complex128",
    "QUInt8Storage": "quint8",
    "QInt8Storage": "qint8",
    "QInt32Storage": "qint32",
    "QUInt4x2Storage": "quint4x2",
    "QUInt2x4Storage": "quint2x4",
    "UntypedStorage": "uint8",
}
"""Classes of storages that torch pickles → the dtype of their elements (``torch.storage``)."""
NEAREST: Mapping[str, str] = {
    "float64": "float32",
    "complex128": "complex64",
    "uint16": "int32",
    "uint32": "int64",
    "uint64": "int64",
}
"""A dtype that a release does not compute with → the nearest that it does; the others of floating point: below."""
COMPUTED_IN = ("bfloat16", "float16", "float32")
"""What weights of floating point are converted to, the first that the release takes."""


def is_float(name: str) -> bool:
    """Whether weights of this dtype are numbers of floating point that can be converted to another such dtype."""
    return name.startswith(("float", "bfloat"))
