"""Makes the addresses of a run's hubs (sockets that others connect to): abstract sockets of the kernel.

Each incarnation (one process from start to end) of a hub has an address of its own. Abstract sockets have no file that
could be deleted, moved or left behind, and no path that could be too long. Any local user may connect; the channel
accepts messages by uid and pid. A name is a hash with a key that only the run's processes know, because otherwise
another user could take the name of a successor in advance.
"""

from __future__ import annotations

import hashlib
import secrets

from pool.protocol.identity import Peer

_KEY_BYTES = 32


def new_key() -> str:
    """Returns a random key, in hexadecimal digits, for the addresses of a new run."""
    return secrets.token_hex(_KEY_BYTES)


def address(key: str, hub: Peer) -> str:
    """Returns the zmq address of a hub, from the run's key."""
    return f"ipc://@{_name(key, f'{hub.role}-{hub.index}-{hub.incarnation}')}"


def memory_address(key: str, coordinator: Peer) -> str:
    """Returns the socket address at which a coordinator exports its device's memory, in the form that Python's sockets
    take."""
    return f"\0{_name(key, f'memory-{coordinator.incarnation}')}"


def _name(key: str, who: str) -> str:
    return f"sparsepool-{hashlib.blake2b(who.encode(), key=bytes.fromhex(key), digest_size=16).hexdigest()}"
