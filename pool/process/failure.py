"""Why a process ends by an exception: in one line for its user, with the place in the user's own code.

The line is what `Failure` carries from a dying process to the supervisor, through its lifeline. Free of torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import TypeAdapter

from loader.errors import DataError
from loader.exit_codes import EXIT_DATA, EXIT_FAILED
from loader.plugins.words import LONGEST_REASON, place_of, shortened, text_of, told
from pool.errors import PoolError
from pool.process.document import to_json


@dataclass(frozen=True)
class Failure:
    """What a process says of itself when it ends."""

    reason: str  # one line
    exit_code: int  # of the run, if this ends it
    started: bool  # it had got ready
    signature: str = ""  # type and place of an exception; empty: a restart would certainly raise it again

    def to_bytes(self) -> bytes:
        return to_json(self)

    @classmethod
    def from_bytes(cls, data: bytes) -> Failure | None:
        """None for anything that is no failure: the user's code could reach the socket too."""
        try:
            return _FAILURE.validate_json(data, strict=True)
        except ValueError:
            return None


_FAILURE = TypeAdapter(Failure)


def failure_of(error: BaseException, *, started: bool) -> Failure:
    """A PoolError or DataError is for its user to mend; any other exception may not come again after a restart."""
    if isinstance(error, PoolError | DataError):
        code = error.exit_code if isinstance(error, PoolError) else EXIT_DATA
        return Failure(shortened(text_of(error), LONGEST_REASON), code, started)
    return Failure(told(error), EXIT_FAILED, started, f"{type(error).__name__} {place_of(error)}")
