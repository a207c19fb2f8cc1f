"""What a pickle would build, without building it: no class is imported and nothing is called (I7).

A pickle is a program for a small machine. This one carries out what makes lists, dictionaries and numbers, and keeps
names, calls and objects as descriptions of themselves. Names that such a checkpoint has no use for are refused:
somebody means them to be run.
"""

from __future__ import annotations

import pickletools
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

# Packages whose names come up in checkpoints, as classes of settings, of optimizers, of parts of the model.
_HARMLESS = (
    "torch", "numpy", "collections", "argparse", "pathlib", "enum", "lightning", "lightning_fabric", "torchmetrics",
    "lightning_utilities", "pytorch_lightning", "ranger", "ranger21", "schedulefree", "model", "nnue_pytorch",
    "feature_set", "feature_block", "features", "feature_transformer", "halfka_v2_hm", "data_loader", "config",
)  # fmt: skip
_PLAIN = {"set", "frozenset", "list", "dict", "tuple", "slice", "range", "complex", "bytearray", "object"}
_OF_OTHERS = {
    "builtins": _PLAIN,
    "__builtin__": _PLAIN,
    "copyreg": {"_reconstructor", "__newobj__"},
    "copy_reg": {"_reconstructor", "__newobj__"},
    "_codecs": {"encode"},
}


class BadPickleError(ValueError):
    """`offset` is in the pickle."""

    def __init__(self, reason: str, offset: int) -> None:
        super().__init__(reason)
        self.offset = offset


@dataclass(frozen=True)
class Name:
    """Of a class or function."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False)
class Call:
    """What calling a class or function would give; `state` is what it would be filled with."""

    of: Name
    arguments: tuple[Any, ...]
    state: Any = None
    items: dict[Any, Any] = field(default_factory=dict)  # set on it by key


@dataclass(frozen=True)
class Persistent:
    """What lies outside the pickle, by its number there."""

    id: Any


_MARK = object()


def described(data: bytes) -> Any:
    """What the pickle stands for: plain values, and `Name`, `Call` and `Persistent` for the rest. Raises
    BadPickleError."""
    machine = _Machine()
    at = 0
    try:
        for operation, argument, position in pickletools.genops(data):
            at = position or 0
            if operation.name == "STOP":
                return machine.pop()
            machine.do(operation.name, argument, at)
    except BadPickleError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError, MemoryError, RecursionError):
        raise BadPickleError("a damaged pickle", at) from None
    raise BadPickleError("the pickle has no end", at)


class _Machine:
    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def pop(self) -> Any:
        return self._stack.pop()

    def do(self, name: str, argument: Any, at: int) -> None:
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in _WITH_ARGUMENT:
            self._stack.append(argument)
        elif name in _STORE:
            self._memo[len(self._memo) if argument is None else argument] = self._stack[-1]
        elif name in _FETCH:
            self._stack.append(self._memo[argument])
        elif name in _STEPS:
            _STEPS[name](self)
        elif name == "GLOBAL":
            self._stack.append(_known(Name(*argument.split(" ", 1)), at))
        elif name == "STACK_GLOBAL":
            called, module = self.pop(), self.pop()
            self._stack.append(_known(Name(str(module), str(called)), at))
        elif name not in ("PROTO", "FRAME"):
            raise BadPickleError(f"the operation {name}, which no checkpoint has", at)

    def _to_mark(self) -> list[Any]:
        place = len(self._stack) - 1
        while self._stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise IndexError
        taken = self._stack[place + 1 :]
        del self._stack[place:]
        return taken

    def tuple_of(self, count: int) -> None:
        taken = tuple(self._stack[len(self._stack) - count :]) if count else ()
        if len(taken) < count:
            raise IndexError
        del self._stack[len(self._stack) - count :]
        self._stack.append(taken)

    def tuple_to_mark(self) -> None:
        self._stack.append(tuple(self._to_mark()))

    def append(self) -> None:
        self._extend([self.pop()])

    def appends(self) -> None:
        self._extend(self._to_mark())

    def _extend(self, values: list[Any]) -> None:
        if isinstance(self._stack[-1], list):
            self._stack[-1].extend(values)

    def set_item(self) -> None:
        value, key = self.pop(), self.pop()
        self._set([key, value])

    def set_items(self) -> None:
        self._set(self._to_mark())

    def _set(self, pairs: Sequence[Any]) -> None:
        target = self._stack[-1]
        items = target if isinstance(target, dict) else target.items
        items.update(zip(pairs[::2], pairs[1::2], strict=True))

    def add_items(self) -> None:
        self._to_mark()

    def call(self) -> None:
        arguments, called = self.pop(), self.pop()
        self._stack.append(Call(called if isinstance(called, Name) else Name("", "?"), tuple(arguments)))

    def call_with_names(self) -> None:
        self.pop()
        self.call()

    def build(self) -> None:
        state = self.pop()
        if isinstance(self._stack[-1], Call):
            self._stack[-1].state = state

    def persistent(self) -> None:
        self._stack.append(Persistent(self.pop()))

    def drop(self) -> None:
        self.pop()

    def drop_to_mark(self) -> None:
        self._to_mark()


def _known(name: Name, at: int) -> Name:
    root = name.module.partition(".")[0]
    if root in _HARMLESS or name.name in _OF_OTHERS.get(name.module, ()):
        return name
    what = "code" if root in sys.stdlib_module_names or root == "__builtin__" else "a class or function"
    raise BadPickleError(f"names {what} that no checkpoint needs, {name}: it is not run, and the file not read", at)


_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
    "MARK": lambda: _MARK,
}
_WITH_ARGUMENT = {
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "STRING", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_STORE = {"PUT", "BINPUT", "LONG_BINPUT", "MEMOIZE"}
_FETCH = {"GET", "BINGET", "LONG_BINGET"}
_STEPS: dict[str, Callable[[_Machine], None]] = {
    "TUPLE": _Machine.tuple_to_mark,
    "TUPLE1": lambda machine: machine.tuple_of(1),
    "TUPLE2": lambda machine: machine.tuple_of(2),
    "TUPLE3": lambda machine: machine.tuple_of(3),
    "APPEND": _Machine.append,
    "APPENDS": _Machine.appends,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
    "ADDITEMS": _Machine.add_items,
    "REDUCE": _Machine.call,
    "NEWOBJ": _Machine.call,
    "NEWOBJ_EX": _Machine.call_with_names,
    "BUILD": _Machine.build,
    "BINPERSID": _Machine.persistent,
    "POP": _Machine.drop,
    "POP_MARK": _Machine.drop_to_mark,
}
