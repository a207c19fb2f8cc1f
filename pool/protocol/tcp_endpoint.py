"""Endpoints of ZeroMQ over TCP, `tcp://HOST:PORT`, and the interfaces of link-local addresses in them. Pure."""

from __future__ import annotations


def bracketed(host: str) -> str:
    """Returns a host as it stands before a colon and a port."""
    return f"[{host}]" if ":" in host else host


def with_scope_of(own: str, endpoint: str) -> str:
    """Returns another machine's endpoint, `tcp://[fe80::1]:4711`, as this one reaches it: a link-local address needs
    the interface, of which only this machine knows the name."""
    scope = own.partition("%")[2]
    begin, bracket, rest = endpoint.partition("]")
    if not scope or not bracket or not begin.startswith("tcp://[fe80:") or "%" in begin:
        return endpoint
    return f"{begin}%{scope}]{rest}"


def without_scope(endpoint: str) -> str:
    """Returns this machine's endpoint as other machines are given it."""
    begin, percent, rest = endpoint.partition("%")
    return begin + rest[rest.index("]") :] if percent else endpoint
