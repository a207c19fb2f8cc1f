"""Finds network addresses for a run on several machines: where the first machine is reached, and where this one
listens."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address
from pathlib import Path

from pool.errors import ConfigError, UnavailableError
from pool.protocol.tcp_endpoint import bracketed

PORT = 29500
_SIOCGIFADDR = 0x8915  # linux/sockios.h
_IF_INET6 = Path("/proc/net/if_inet6")  # address, index, length of the prefix, scope, flags, name; all but the name hex


@dataclass(frozen=True)
class Endpoint:
    """Holds a host's name or address, and a port. An IPv6 address has no brackets in `host`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"{bracketed(self.host)}:{self.port}"


def parse_endpoint(text: str) -> Endpoint:
    """Parses HOST, HOST:PORT, [ADDRESS] or [ADDRESS]:PORT. Raises ConfigError, also for an IPv6 address without
    brackets whose end may be a port."""
    if text.startswith("["):
        address, bracket, suffix = text[1:].partition("]")
        if not bracket or not is_ipv6(address) or (suffix and not suffix.startswith(":")):
            raise ConfigError(f"--first: {text}; [ADDRESS]:PORT is expected, with an IPv6 address")
        port = _parse_port(text, suffix[1:]) if suffix else PORT
        return Endpoint(address, port)
    if not text:
        raise ConfigError("--first: the host of machine 0 is expected, as the others reach it")
    host, colon, port_text = text.rpartition(":")
    if not colon:
        return Endpoint(text, PORT)
    if ":" not in host:
        return Endpoint(host, _parse_port(text, port_text))
    if is_ipv6(text) and not is_ipv6(host):
        return Endpoint(text, PORT)
    raise ConfigError(f"--first: {text}; an IPv6 address is written [ADDRESS] or [ADDRESS]:PORT")


def _parse_port(text: str, port_text: str) -> int:
    """Parses the port of an endpoint. `text`: the endpoint, for messages. Raises ConfigError."""
    is_number = port_text.isascii() and port_text.isdecimal()
    if not is_number or not 0 < int(port_text) < 1 << 16 or text.startswith(":"):
        raise ConfigError(f"--first: {text}; HOST:PORT is expected")
    return int(port_text)


def is_ipv6(text: str) -> bool:
    """Tells whether a text is an IPv6 address, with an interface or without."""
    with contextlib.suppress(ValueError):
        return isinstance(ip_address(text), IPv6Address)
    return False


def resolve_host(host: str) -> list[str]:
    """Looks up all addresses of a host, each once.

    IPv4 comes first, so that machines with and without IPv6 choose the same address. Raises UnavailableError if the
    name has no address now, ConfigError if it can't be a name.
    """
    try:
        answers = socket.getaddrinfo(host, PORT, type=socket.SOCK_DGRAM)
    except OSError as error:
        raise UnavailableError(f"--first: {host}: {error.strerror}") from None
    except UnicodeError:  # the name has an empty part, or one that is too long
        raise ConfigError(f"--first: {host} is no name of a machine") from None
    answers.sort(key=lambda answer: answer[0] != socket.AF_INET)
    return list(dict.fromkeys(_format_address(answer[4]) for answer in answers))


def find_local_address(interface: str | None, first: str, addresses: Sequence[str]) -> str:
    """Finds the address at which the other machines reach this one.

    `first`, `addresses`: the first machine's name and its addresses. `interface`: network interface whose address is
    returned. Without an interface, returns the source address of packets to the first one of `addresses` that is
    reachable. Raises ConfigError, of which UnavailableError if the network may still come up.
    """
    if interface is not None:
        return _find_interface_address(interface, use_ipv6=all(map(is_ipv6, addresses)))
    reason = ""
    local = ""
    for address in addresses:
        try:
            local = _find_source_address(address)
        except OSError as error:
            if error.errno == errno.EINVAL:
                raise ConfigError(
                    f"--first: {first}: a link-local address needs its interface, such as [{address}%eth0]"
                ) from None
            if not reason:
                reason = f"--first: {first}: {os.strerror(error.errno or 0)}"
            continue
        if not ip_address(local).is_loopback or first in ("localhost", address):
            return local
    if local:  # the name resolves to this machine's loopback, as in Debian's /etc/hosts
        raise ConfigError(
            f"--first: {first} is {local} on this machine, where no other reaches it; give --interface, or the address "
            "of the first machine"
        )
    raise UnavailableError(reason)


def _find_source_address(address: str) -> str:
    """Returns the source address of packets from this machine to another one. Raises OSError if there is no route."""
    family, _, _, _, target = socket.getaddrinfo(address, PORT, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as any_socket:
        any_socket.connect(target)  # sends nothing
        return _format_address(any_socket.getsockname())


def _format_address(address: tuple[str, int] | tuple[str, int, int, int] | tuple[int, bytes]) -> str:
    """Returns the address of a socket as text; of a link-local one with the interface, `fe80::1%eth0`."""
    host = str(address[0])
    if len(address) == 4 and address[3] and "%" not in host:
        return f"{host}%{socket.if_indextoname(address[3])}"
    return host


def _find_interface_address(interface: str, *, use_ipv6: bool) -> str:
    """Returns the IPv4 or IPv6 address of a network interface. Raises ConfigError, of which UnavailableError if the
    interface has none of that kind now."""
    names = [name for _, name in socket.if_nameindex()]
    if interface not in names:
        raise ConfigError(f"--interface: {interface} has no address; there are {', '.join(names)}")
    family = "IPv6" if use_ipv6 else "IPv4"
    address = next(_read_ipv6_addresses(interface), None) if use_ipv6 else _read_ipv4_address(interface)
    if address is None:
        raise UnavailableError(f"--interface: {interface} has no {family} address now")
    return address


def _read_ipv4_address(interface: str) -> str | None:
    """Returns the IPv4 address of a network interface, or None if it has none. Raises ConfigError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        try:
            request = struct.pack("256s", interface.encode()[:15])
            answer = fcntl.ioctl(any_socket.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                return None
            raise ConfigError(f"--interface: {interface}: {error.strerror}") from None
        return socket.inet_ntoa(answer[20:24])


def _read_ipv6_addresses(interface: str) -> Iterator[str]:
    """Yields the IPv6 addresses of a network interface. Link-local addresses, which only the same link reaches, come
    last."""
    try:
        lines = [line.split() for line in _IF_INET6.read_text(encoding="ascii").splitlines()]
    except OSError:
        return
    addresses = [IPv6Address(bytes.fromhex(line[0])) for line in lines if line[-1] == interface]
    for address in sorted(addresses, key=lambda address: address.is_link_local):
        yield f"{address}%{interface}" if address.is_link_local else str(address)
