"""The text of the exception that ends a worker, in the worker's own shared memory. The coordinator reads it once the
death is known: a last message could be lost. The number of the attempt tells whether it is of an earlier worker.

    word 0      attempt, written last
    word 1      bytes of the text
    then        the text, UTF-8
"""

from __future__ import annotations

import numpy as np

from pool.shm.signals import Words


class Raised:
    def __init__(self, words: Words) -> None:
        self._head = words[:2]
        self._text = words[2:].view(np.uint8)

    def say(self, attempt: int, text: str) -> None:
        """Called by the worker before it ends. What does not fit is cut off."""
        data = text.encode(errors="replace")[: self._text.size]
        self._head[0] = 0
        self._text[: len(data)] = np.frombuffer(data, np.uint8)
        self._head[1] = len(data)
        self._head[0] = attempt

    def of(self, attempt: int) -> str:
        """The text for this attempt; empty if there is none."""
        said, size = (int(word) for word in self._head)
        if not attempt or said != attempt:
            return ""
        return self._text[: max(0, min(size, self._text.size))].tobytes().decode(errors="replace")
