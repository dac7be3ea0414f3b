"""What macOS answers to a plugin's library while it registers its kernels: as little as that takes.

What can be one thing on one macOS and another on the next is a question: ``asked`` has them all, and what is answered
is the caller's choice.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from mpsprobe_tables.tensorflow.machine import METHOD

if TYPE_CHECKING:
    from mpsprobe_tables.tensorflow.machine import Machine

Function = Callable[[], int | None]
DONE = struct.pack("<q", -1)
APPEND = "__ZNSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE6appendEPKcm"
STREAM = "__ZNSt3__113basic_ostreamIcNS_11char_traitsIcEEE"  # what 0.1.x writes a line of debugging to
SENTRY, SENTRY_END = f"{STREAM}6sentryC1ERS3_", f"{STREAM}6sentryD1Ev"


class System:
    """The functions of macOS's own libraries that a plugin calls.

    Args:
        machine: that they read and write.
        refused: the questions that are answered by no; every other one by yes.
    """

    def __init__(self, machine: Machine, refused: frozenset[str]) -> None:
        self._machine = machine
        self._refused = refused
        self._classes: dict[int, str] = {}
        self.asked: dict[str, None] = {}
        """Each question, in order: ``macOS 12.0``, ``class MPSGraph``, ``-[MPSGraph selector:]``."""
        self.functions: dict[str, Function] = {
            "_NSClassFromString": self._class_from_string,
            "_objc_msgSend": self._send,
            "_dispatch_once": self._once,
            "_dispatch_once_f": self._once_f,
            "_dlsym": self._dlsym,
            "__availability_version_check": self._version_check,
            "_malloc": self._allocate,
            "__Znwm": self._allocate,
            "__ZdlPv": _nothing,
            "_free": _nothing,
            "_memcpy": self._copy,
            "_memmove": self._copy,
            "_strlen": lambda: len(machine.read_text(machine.argument(0))),
            APPEND: self._append,
            SENTRY: self._sentry,
            SENTRY_END: _nothing,
            "__ZNKSt3__18ios_base6getlocEv": _nothing,
            "__ZNKSt3__16locale9use_facetERNS0_2idE": machine.new_object,
            "__ZNSt3__16localeD1Ev": _nothing,
            f"{STREAM}3putEc": lambda: machine.argument(0),
            f"{STREAM}5flushEv": lambda: machine.argument(0),
            METHOD: lambda: 0,
        }

    def _question(self, text: str) -> bool:
        self.asked[text] = None
        return text not in self._refused

    def _class_from_string(self) -> int:
        """``argument``: a constant ``NSString``, which has an address and a length behind its class and flags."""
        start, length = struct.unpack("<QQ", self._machine.read(self._machine.argument(0) + 16, 16))
        name = self._machine.read(start, length).decode("utf-8", "replace")
        if not self._question(f"class {name}"):
            return 0
        address = self._machine.allocate(16)
        self._classes[address] = name
        return address

    def _send(self) -> int:
        """Only one message is known: whether the instances of a class respond to a selector."""
        receiver, selector = self._machine.argument(0), self._machine.text(self._machine.argument(1))
        if receiver == 0:
            return 0
        if selector != "instancesRespondToSelector:" or receiver not in self._classes:
            raise KeyError(selector)
        return int(self._question(f"-[{self._classes[receiver]} {self._machine.text(self._machine.argument(2))}]"))

    def _once(self) -> None:
        predicate, block = self._machine.argument(0), self._machine.argument(1)
        if self._machine.read(predicate, 8) != DONE:
            self._machine.write(predicate, DONE)
            self._machine.go_on_with(self._machine.number(block + 16), block)

    def _once_f(self) -> None:
        predicate, context, function = (self._machine.argument(index) for index in range(3))
        if self._machine.read(predicate, 8) != DONE:
            self._machine.write(predicate, DONE)
            self._machine.go_on_with(function, context)

    def _dlsym(self) -> int:
        """``__isPlatformVersionAtLeast`` of the compiler's own library finds out so what it asks."""
        name = "_" + self._machine.text(self._machine.argument(1))
        return self._machine.imported(name) if name in self.functions else 0

    def _version_check(self) -> int:
        """``count``, then platform and version of each; the version is 0xMMMMmmpp."""
        _, version = struct.unpack("<II", self._machine.read(self._machine.argument(1), 8))
        return int(self._question(f"macOS {version >> 16}.{version >> 8 & 0xFF}"))

    def _allocate(self) -> int:
        return self._machine.allocate(self._machine.argument(0))

    def _copy(self) -> int:
        target, source, size = (self._machine.argument(index) for index in range(3))
        self._machine.write(target, self._machine.read(source, size))
        return target

    def _sentry(self) -> int:
        """``std::ostream::sentry``: nothing can be written to the stream, so that nothing is."""
        self._machine.write(self._machine.argument(0), bytes(16))
        return self._machine.argument(0)

    def _append(self) -> int:
        """``std::string::append(const char*, size_t)``. libc++ keeps strings in two ways, both of 24 bytes."""
        string, source, size = (self._machine.argument(index) for index in range(3))
        held = self._machine.read(string, 24)
        if self._machine.image.architecture == "arm64":
            long, short = held[23] & 0x80, held[: held[23]]
            start, length = struct.unpack_from("<QQ", held)
        else:
            long, short = held[0] & 1, held[1 : 1 + (held[0] >> 1)]
            length, start = struct.unpack_from("<QQ", held, 8)
        text = (self._machine.read(start, length) if long else short) + self._machine.read(source, size)
        place = self._machine.allocate(len(text) + 1)
        self._machine.write(place, text)
        if self._machine.image.architecture == "arm64":
            held = struct.pack("<QQQ", place, len(text), 1 << 63 | len(text) + 1)
        else:
            held = struct.pack("<QQQ", len(text) + 1 | 1, len(text), place)
        self._machine.write(string, held)
        return string


def _nothing() -> None:
    """Nothing that a plugin's registrations depend on."""
