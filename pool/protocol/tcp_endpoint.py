"""Formats ZeroMQ endpoints over TCP, `tcp://HOST:PORT`, and the interface names of link-local addresses in them."""

from __future__ import annotations


def bracketed(host: str) -> str:
    """Returns a host in the form in which a colon and a port can follow: an IPv6 address gets brackets."""
    return f"[{host}]" if ":" in host else host


def with_scope_of(own: str, endpoint: str) -> str:
    """Adds this machine's network interface to another machine's endpoint if its address is link-local.

    `own`: this machine's address, which may end with an interface, `fe80::2%eth0`. The endpoint `tcp://[fe80::1]:4711`
    becomes `tcp://[fe80::1%eth0]:4711`. Only this machine knows the name of the interface.
    """
    scope = own.partition("%")[2]
    begin, bracket, rest = endpoint.partition("]")
    if not scope or not bracket or not begin.startswith("tcp://[fe80:") or "%" in begin:
        return endpoint
    return f"{begin}%{scope}]{rest}"


def without_scope(endpoint: str) -> str:
    """Removes the network interface from this machine's endpoint, since the name means nothing to other machines."""
    begin, percent, rest = endpoint.partition("%")
    return begin + rest[rest.index("]") :] if percent else endpoint
