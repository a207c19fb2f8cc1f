"""Encodes messages as msgpack arrays and decodes them with a check of every field (I7, I8).

An envelope is the array [kind, sender, addressee, sequence, fields]. Bytes that can't be decoded raise ProtocolError,
which names the kind and the field. The receiving socket (`pool.protocol.channel`) counts and drops such messages.
"""

from __future__ import annotations

import dataclasses
import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgpack

from pool.errors import ProtocolError
from pool.protocol import messages
from pool.protocol.identity import Peer

MAX_BYTES = 1 << 20  # longest message
MAX_STRING = 1 << 13
MAX_ITEMS = 1 << 14  # longest list
MAX_INT = 1 << 63

FieldPath = tuple[Any, str | int]  # path of a value in its message: path of its container, then name or index
Checker = Callable[[Any, FieldPath], Any]
Fields = Callable[[Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Envelope:
    """Joins a message with its sender, its addressee, and its sequence number among the sender's messages to that
    addressee."""

    sender: Peer
    addressee: Peer
    sequence: int
    message: messages.Message


def encode(envelope: Envelope) -> bytes:
    """Encodes an envelope as bytes. Raises ProtocolError if the message is longer than a receiver would accept."""
    kind = type(envelope.message).__name__
    body = (kind, envelope.sender, envelope.addressee, envelope.sequence, envelope.message)
    data: bytes = msgpack.packb(body, default=_fields, use_bin_type=True)
    if len(data) > MAX_BYTES:
        raise ProtocolError(f"{kind}: {len(data)} bytes are more than {MAX_BYTES}")
    return data


def decode(data: bytes) -> Envelope:
    """Decodes the bytes that `encode` makes and checks every field. Raises ProtocolError for any other bytes."""
    if len(data) > MAX_BYTES:
        raise ProtocolError(f"message of {len(data)} bytes is longer than {MAX_BYTES}")
    try:
        body = msgpack.unpackb(
            data,
            raw=False,
            strict_map_key=True,
            max_str_len=MAX_STRING,
            max_bin_len=0,
            max_array_len=MAX_ITEMS,
            max_map_len=0,
            max_ext_len=0,
        )
    except Exception as error:  # msgpack has no common base class for what bad bytes raise
        raise ProtocolError(f"not msgpack: {type(error).__name__}: {error}") from None
    if type(body) is not list or len(body) != 5 or type(body[0]) is not str:
        raise ProtocolError("not an envelope of kind, sender, addressee, sequence and fields")
    kind, sender, addressee, sequence, fields = body
    if kind not in _CHECKERS:
        raise ProtocolError(f"unknown kind {kind!r:.80}")
    message: FieldPath = (None, kind)
    return Envelope(
        sender=_PEER(sender, (message, "sender")),
        addressee=_PEER(addressee, (message, "addressee")),
        sequence=_check_int(sequence, (message, "sequence")),
        message=_CHECKERS[kind](fields, message),
    )


def _fields(value: Any) -> tuple[Any, ...]:
    """Returns the values of a dataclass's fields, which msgpack writes as an array. Raises TypeError for any other
    object."""
    cls: Any = type(value)
    return _fields_of(cls)(value)


@functools.cache
def _fields_of(cls: Any) -> Fields:
    """Returns a function that reads all fields of an instance of this dataclass as a tuple."""
    names = [field.name for field in dataclasses.fields(cls)]
    read: Fields = attrgetter(*names)
    return read if len(names) > 1 else lambda value: (read(value),)


def _unexpected_value(value: Any, path: FieldPath, expected: str) -> ProtocolError:
    return ProtocolError(f"{_format_path(path)}: expected {expected}, got {value!r:.80}")


def _format_path(path: FieldPath) -> str:
    """Returns the path of a value in its message, such as `WorkerOrders.assignments[0].step`."""
    container, name = path
    if container is None:
        return str(name)
    suffix = f"[{name}]" if isinstance(name, int) else f".{name}"
    return _format_path(container) + suffix


def _check_int(value: Any, path: FieldPath) -> int:
    if type(value) is not int or not -MAX_INT <= value < MAX_INT:
        raise _unexpected_value(value, path, "an integer of 64 bits")
    return value


def _check_exact(expected: type) -> Checker:
    def check(value: Any, path: FieldPath) -> Any:
        if type(value) is not expected:
            raise _unexpected_value(value, path, expected.__name__)
        return value

    return check


def _check_literal(allowed: tuple[Any, ...]) -> Checker:
    def check(value: Any, path: FieldPath) -> Any:
        if value not in allowed:
            raise _unexpected_value(value, path, f"one of {', '.join(map(str, allowed))}")
        return value

    return check


def _check_tuple(item: Checker) -> Checker:
    def check(value: Any, path: FieldPath) -> tuple[Any, ...]:
        if type(value) is not list:
            raise _unexpected_value(value, path, "a list")
        return tuple([item(entry, (path, i)) for i, entry in enumerate(value)])

    return check


def _check_optional(inner: Checker) -> Checker:
    def check(value: Any, path: FieldPath) -> Any:
        return None if value is None else inner(value, path)

    return check


def _check_dataclass(cls: type[Any]) -> Checker:
    """Returns a function that checks the fields of a dataclass, in their order, and creates an instance."""
    hints = get_type_hints(cls)
    fields = [(field.name, _create_checker(hints[field.name])) for field in dataclasses.fields(cls)]

    def check(value: Any, path: FieldPath) -> Any:
        if type(value) is not list or len(value) != len(fields):
            raise _unexpected_value(value, path, f"the {len(fields)} fields of {cls.__name__}")
        return cls(*[inner(item, (path, name)) for (name, inner), item in zip(fields, value, strict=True)])

    return check


def _create_checker(hint: Any) -> Checker:
    """Returns the function that checks and converts decoded values of a type. Raises TypeError for a type that messages
    may not use."""
    if hint is int:
        return _check_int
    if hint in (str, float, bool):
        return _check_exact(hint)
    if dataclasses.is_dataclass(hint):
        return _check_dataclass(hint)  # type: ignore[arg-type]
    origin, args = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _check_literal(args)
    if origin is tuple and len(args) == 2 and args[1] is Ellipsis:
        return _check_tuple(_create_checker(args[0]))
    if origin in (Union, types.UnionType) and len(args) == 2 and args[1] is types.NoneType:
        return _check_optional(_create_checker(args[0]))
    raise TypeError(f"a message field may not be {hint}")


_PEER = _check_dataclass(Peer)
_CHECKERS: dict[str, Checker] = {cls.__name__: _check_dataclass(cls) for cls in get_args(messages.Message)}
