"""Makes libraries whose operators compute as PyTorch's do: through stubs, Metal kernels, graphs and other operators."""

from __future__ import annotations

from collections.abc import Sequence

from made_library import FRAME, Address, Call, Keep, Load, MadeLibrary, Step, Text, Words, initialiser

REGISTER = "__ZNR5torch7Library5_implEPKcONS_11CppFunctionE"
CALL_STUB = "__ZN2at6native16DispatchStubImpl12get_call_ptrEN3c1010DeviceTypeEPv"
STRING = "NSt3__112basic_stringIcNS3_11char_traitsIcEENS3_9allocatorIcEEEE"
LIBRARY = "__ZN2at6native3mps18MetalShaderLibrary"
UNARY = f"{LIBRARY}17exec_unary_kernelERNS_18TensorIteratorBaseERK{STRING}"
BINARY = f"{LIBRARY}18exec_binary_kernelERNS_18TensorIteratorBaseERK{STRING}"
LOOKUP = f"{LIBRARY}23getLibraryPipelineStateEPU21objcproto10MTLLibrary11objc_objectRK{STRING}"
FORMAT = "__ZN3fmt3v126detail19parse_format_stringIcNS1_14format_handlerIcEEEEvNS0_17basic_string_viewIT_EEOT0_"
INSERT = "__ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6insertEmPKc"
GRAPH = "__ZN2at6native3mps11runMPSGraphEPNS_3mps9MPSStreamE"
SETTER = "__GLOBAL__sub_I_UnaryKernel.mm"


def wrapper(operator: str) -> str:
    """The symbol of what is registered for ``operator`` (``exp_out``)."""
    name = f"wrapper_MPS_{operator}"
    return f"__ZN3c104impl28wrap_kernel_functor_unboxed_IXadL_ZN2at12_GLOBAL__N_1{len(name)}{name}EEEE4callEv"


def native(name: str) -> str:
    """The symbol of ``at::native::name(TensorIteratorBase&)``."""
    return f"__ZN2at6nativeL{len(name)}{name}ERNS_18TensorIteratorBaseE"


def block(name: str) -> str:
    """The symbol of a block inside of ``native(name)``."""
    return f"__{native(name)}_block_invoke"


def operator_call(name: str) -> str:
    """The symbol that calls an operator through the dispatcher (``mul_out``)."""
    return f"__ZN2at4_ops{len(name)}{name}4callERKNS_6TensorE"


def stub(name: str) -> tuple[str, str]:
    """The symbols of a stub and of the variable that names its type."""
    of_type = f"{name}_DECLARE_DISPATCH_type"
    default = f"__ZN2at6native12DispatchStubIPFvRNS_18TensorIteratorBaseEENS0_{len(of_type)}{of_type}EE7DEFAULTE"
    return f"__ZN2at6native{len(name)}{name}E", default


def formatted(pattern: str) -> list[Step]:
    """``fmt::format(pattern, …)``."""
    length = 0xD2800000 | len(pattern) << 5 | 1  # mov x1, #length
    return [Load(pattern, 0), Words((length,)), Call(FORMAT)]


def kernel_library(
    operators: dict[str, Sequence[Step]],
    functions: dict[str, Sequence[Step]] | None = None,
    stubs: dict[str, str | None] | None = None,
    kernels: Sequence[str] = (),
) -> MadeLibrary:
    """A library that registers ``operators`` for MPS.

    Args:
        operators: operator → what the function does that it registers.
        functions: symbol → what it does.
        stubs: name → the function that an initialiser sets for MPS, if any.
        kernels: names of Metal kernels.
    """
    stubs = stubs or {}
    registered: list[Step] = []
    for operator in operators:
        name = operator.replace(".", "_")
        registered += [Address(wrapper(name)), Load(operator, 1), Call(REGISTER)]
    made: dict[str, Sequence[Step]] = {
        wrapper(operator.replace(".", "_")): [Words((FRAME,)), *steps] for operator, steps in operators.items()
    }
    made |= {symbol: [Words((FRAME,)), *steps] for symbol, steps in (functions or {}).items()}
    made[initialiser("aten", "MPS")] = registered
    made[SETTER] = [Keep(symbol, stub(name)[0], 24) for name, symbol in stubs.items() if symbol is not None]
    return MadeLibrary(made, objects=[symbol for name in stubs for symbol in stub(name)], kernels=kernels)


def unary(operation: str) -> list[Step]:
    """``exec_unary_kernel(iter, operation)``."""
    return [Text(operation, 2), Call(UNARY)]


def binary(operation: str) -> list[Step]:
    """``exec_binary_kernel(iter, operation)``."""
    return [Text(operation, 2), Call(BINARY)]
