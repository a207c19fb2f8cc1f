"""What a worker says of the exception that ends it, in its own shared memory: there the coordinator finds it whatever
becomes of messages, once the death is known. It names the attempt, so that an earlier life's says nothing of this one.

    word 0      attempt, written last
    word 1      bytes of the text
    then        the text, UTF-8
"""

from __future__ import annotations

import numpy as np

from pool.shm.shortcut import Words


class Raised:
    def __init__(self, words: Words) -> None:
        self._head = words[:2]
        self._text = words[2:].view(np.uint8)

    def say(self, attempt: int, text: str) -> None:
        """The batch of this attempt ends this process. What does not fit is cut off."""
        data = text.encode(errors="replace")[: self._text.size]
        self._head[0] = 0
        self._text[: len(data)] = np.frombuffer(data, np.uint8)
        self._head[1] = len(data)
        self._head[0] = attempt

    def of(self, attempt: int) -> str:
        """What was said of this attempt; empty: nothing."""
        said, size = (int(word) for word in self._head)
        if not attempt or said != attempt:
            return ""
        return self._text[: max(0, min(size, self._text.size))].tobytes().decode(errors="replace")
