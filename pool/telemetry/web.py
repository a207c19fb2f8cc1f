"""Provides a small web server, by Werkzeug, which TensorBoard's server needs too.

It answers each request in a thread, a limited number at a time, and logs nothing.
"""

from __future__ import annotations

import contextlib
import io
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

from werkzeug.serving import ThreadedWSGIServer, WSGIRequestHandler

from pool.errors import UnavailableError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

MOST_CONNECTIONS = 32  # open at a time, so that many clients take no descriptors from a run
SILENCE_SECONDS = 30  # of a client, after which its connection is closed
REQUEST_SECONDS = 10  # for a client to send a whole request, however long it is


class WebServer(ThreadedWSGIServer):
    """Serves a WSGI application once `serve_forever` is called. `address` and `port` are those that the server was
    bound to."""

    def __init__(self, application: WSGIApplication, host: str, port: int) -> None:
        """Binds the server. `port`: 0 for any that is free. Raises UnavailableError if the address can't be bound."""
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._incomplete: dict[socket.socket, None] = {}  # connections whose request is still to come, oldest first
        self._lock = threading.Lock()  # protects `_incomplete`
        with _bind_socket(host, port) as bound:
            self.address, port = bound.getsockname()[:2]
            super().__init__(self.address, port, application, _Handler, fd=bound.fileno())

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answers a request in a thread, or closes the connection if MOST_CONNECTIONS others are open and none can be
        ended."""
        if not self._free.acquire(blocking=False) and not self._close_slowest():
            self.shutdown_request(request)
            return
        with self._lock:
            self._incomplete[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:  # no thread could be started
            self.request_is_complete(request)
            self._free.release()
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.request_is_complete(request)
            self._free.release()

    def request_is_complete(self, connection: socket.socket) -> None:
        """Notes that the whole request of a connection was received, or that the connection has ended."""
        with self._lock:
            self._incomplete.pop(connection, None)

    def _close_slowest(self) -> bool:
        """Closes the connection that has been sending its request for the longest time. Returns whether its thread
        became free."""
        with self._lock:
            slowest = next(iter(self._incomplete), None)
            if slowest is None:
                return False
            del self._incomplete[slowest]
            with contextlib.suppress(OSError):  # it has ended by itself
                slowest.shutdown(socket.SHUT_RDWR)
        return self._free.acquire(timeout=1.0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of a connection that has broken."""


class _Handler(WSGIRequestHandler):
    """Reads and answers one request, with limits of time."""

    timeout = SILENCE_SECONDS  # seconds for all bytes of one write
    server: WebServer

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_RequestBytes(self.connection, time.monotonic() + REQUEST_SECONDS))

    def run_wsgi(self) -> None:
        self.server.request_is_complete(self.connection)
        self.connection.settimeout(SILENCE_SECONDS)
        super().run_wsgi()

    def log(self, type: str, message: str, *args: object) -> None:
        pass


class _RequestBytes(io.RawIOBase):
    """Reads the bytes of a request from a connection until a deadline."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads into a buffer. Returns the number of bytes. Raises TimeoutError after the deadline."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def _bind_socket(host: str, port: int) -> socket.socket:
    """Returns a socket that listens at a host and port. Raises UnavailableError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UnavailableError(f"{host}: {error.strerror}") from None
    except UnicodeError:  # a name with an empty or a long part
        raise UnavailableError(f"{host}: is no name of a machine") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        bound.listen()
    except OSError as error:
        bound.close()
        raise UnavailableError(f"{host} port {port}: {error.strerror}; port 0 is one that is free") from None
    return bound
