"""Addresses of the hubs of a run: abstract sockets of the kernel, one for each incarnation of a hub.

Abstract sockets have no file that could be deleted, moved or left behind, and no path that could be too long. Any local
user may connect; the channel accepts messages by uid and pid. A name is a hash with a key that only the run's processes
know: otherwise another user could take the name of a successor in advance.
"""

from __future__ import annotations

import hashlib
import secrets

from pool.protocol.identity import Peer

_KEY_BYTES = 32


def new_key() -> str:
    """Returns a new key, for a run that begins."""
    return secrets.token_hex(_KEY_BYTES)


def address(key: str, hub: Peer) -> str:
    """Returns a hub's address in the form that zmq takes."""
    return f"ipc://@{_name(key, f'{hub.role}-{hub.index}-{hub.incarnation}')}"


def memory_address(key: str, coordinator: Peer) -> str:
    """Returns the address of the socket at which a coordinator lends memory of its device, in the form that Python
    takes."""
    return f"\0{_name(key, f'memory-{coordinator.incarnation}')}"


def _name(key: str, who: str) -> str:
    return f"sparsepool-{hashlib.blake2b(who.encode(), key=bytes.fromhex(key), digest_size=16).hexdigest()}"
