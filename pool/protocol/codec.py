"""Messages to bytes and back: msgpack arrays, every field checked, one error type (I7, I8).

An envelope is [kind, sender, addressee, sequence, fields]. What can't be decoded raises ProtocolError
with the kind and the field; the channel counts and drops it.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgpack

from pool.errors import ProtocolError
from pool.protocol import messages
from pool.protocol.identity import Peer

MAX_BYTES = 1 << 20  # of one message
MAX_STRING = 1 << 13
MAX_ITEMS = 1 << 14  # of one list
MAX_INT = 1 << 63

Checker = Callable[[Any, str], Any]


@dataclass(frozen=True)
class Envelope:
    """A message with its sender, its addressee, and its number among the sender's messages to it."""

    sender: Peer
    addressee: Peer
    sequence: int
    message: messages.Message


def encode(envelope: Envelope) -> bytes:
    """Raises ProtocolError if the message is longer than a receiver would accept."""
    body = [
        type(envelope.message).__name__,
        _plain(envelope.sender),
        _plain(envelope.addressee),
        envelope.sequence,
        _plain(envelope.message),
    ]
    data: bytes = msgpack.packb(body, use_bin_type=True)
    if len(data) > MAX_BYTES:
        raise ProtocolError(f"{body[0]}: {len(data)} bytes are more than {MAX_BYTES}")
    return data


def decode(data: bytes) -> Envelope:
    """The inverse of `encode`. Raises ProtocolError for anything else."""
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
    return Envelope(
        sender=_PEER(sender, f"{kind}.sender"),
        addressee=_PEER(addressee, f"{kind}.addressee"),
        sequence=_check_int(sequence, f"{kind}.sequence"),
        message=_CHECKERS[kind](fields, kind),
    )


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        return [_plain(getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _check_int(value: Any, where: str) -> int:
    if type(value) is not int or not -MAX_INT <= value < MAX_INT:
        raise ProtocolError(f"{where}: expected an integer of 64 bits, got {value!r:.80}")
    return value


def _check_exact(expected: type) -> Checker:
    def check(value: Any, where: str) -> Any:
        if type(value) is not expected:
            raise ProtocolError(f"{where}: expected {expected.__name__}, got {value!r:.80}")
        return value

    return check


def _check_literal(allowed: tuple[Any, ...]) -> Checker:
    def check(value: Any, where: str) -> Any:
        if value not in allowed:
            raise ProtocolError(f"{where}: expected one of {', '.join(map(str, allowed))}, got {value!r:.80}")
        return value

    return check


def _check_tuple(item: Checker) -> Checker:
    def check(value: Any, where: str) -> tuple[Any, ...]:
        if type(value) is not list:
            raise ProtocolError(f"{where}: expected a list, got {value!r:.80}")
        return tuple(item(entry, f"{where}[{i}]") for i, entry in enumerate(value))

    return check


def _check_optional(inner: Checker) -> Checker:
    def check(value: Any, where: str) -> Any:
        return None if value is None else inner(value, where)

    return check


def _check_dataclass(cls: type[Any]) -> Checker:
    hints = get_type_hints(cls)
    fields = [(field.name, _checker(hints[field.name])) for field in dataclasses.fields(cls)]

    def check(value: Any, where: str) -> Any:
        if type(value) is not list or len(value) != len(fields):
            raise ProtocolError(f"{where}: expected the {len(fields)} fields of {cls.__name__}, got {value!r:.80}")
        return cls(*(inner(item, f"{where}.{name}") for (name, inner), item in zip(fields, value, strict=True)))

    return check


def _checker(hint: Any) -> Checker:
    """The check of one field's type; the types that messages use are a closed set."""
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
        return _check_tuple(_checker(args[0]))
    if origin in (Union, types.UnionType) and len(args) == 2 and args[1] is types.NoneType:
        return _check_optional(_checker(args[0]))
    raise TypeError(f"a message field may not be {hint}")


_PEER = _check_dataclass(Peer)
_CHECKERS: dict[str, Checker] = {cls.__name__: _check_dataclass(cls) for cls in get_args(messages.Message)}
