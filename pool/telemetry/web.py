"""A small web server, by Werkzeug, which TensorBoard's server needs too: it answers in threads, to a few at a time, and
says nothing of it."""

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

MOST_CONNECTIONS = 32  # at a time: whoever opens many takes no descriptors from a run
SILENCE_SECONDS = 30  # after which a connection is closed
REQUEST_SECONDS = 10  # in which a whole request has to come, however many bytes of it there are


class WebServer(ThreadedWSGIServer):
    """Answers from `serve` on. `address`, `port`: those that it has got."""

    def __init__(self, application: WSGIApplication, host: str, port: int) -> None:
        """`port`: 0 for any that is free. Raises UnavailableError if the place can't be had."""
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._incomplete: dict[socket.socket, None] = {}  # connections whose request is still to come, oldest first
        self._lock = threading.Lock()  # of these
        with _bound(host, port) as bound:
            self.address, port = bound.getsockname()[:2]
            super().__init__(self.address, port, application, _Handler, fd=bound.fileno())

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False) and not self._hang_up_on_slowest():
            self.shutdown_request(request)
            return
        with self._lock:
            self._incomplete[request] = None
        try:
            super().process_request(request, client_address)
        except BaseException:  # there is no thread to be had
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
        """All of a connection's request has come, or it has ended."""
        with self._lock:
            self._incomplete.pop(connection, None)

    def _hang_up_on_slowest(self) -> bool:
        """Ends the connection that has taken longest over its request. Returns whether its place could be had."""
        with self._lock:
            slowest = next(iter(self._incomplete), None)
            if slowest is None:
                return False
            del self._incomplete[slowest]
            with contextlib.suppress(OSError):  # it has ended by itself
                slowest.shutdown(socket.SHUT_RDWR)
        return self._free.acquire(timeout=1.0)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that has broken is nobody's business."""


class _Handler(WSGIRequestHandler):
    timeout = SILENCE_SECONDS  # of a write: of all that one call sends
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
    """The bytes of a request, all of which have to come before a deadline."""

    def __init__(self, connection: socket.socket, deadline: float) -> None:
        self._connection = connection
        self._deadline = deadline

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Raises TimeoutError."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(left)
        return self._connection.recv_into(buffer)


def _bound(host: str, port: int) -> socket.socket:
    """Raises UnavailableError."""
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
