"""Shows what processes have to tell the run's user: what several of them find is shown once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from loader.stream.config import DataConfig
from pool.metrics.feature_uses import UntrainedShare
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import LeftOutData, Notice, UntrainedFeatures
from pool.supervisor.left_out_summary import LeftOutSummary

log = logging.getLogger(__name__)


class Notices:
    def __init__(self, config: DataConfig, say: Callable[[str], object]) -> None:
        """`say`: shows a line to the run's user."""
        self.left_out = LeftOutSummary(config)
        self._say = say
        self._of_workers: set[str] = set()  # texts that were shown
        self._untrained_fields: set[str] = set()  # that were shown

    def hear(self, peer: Peer, message: Notice | LeftOutData | UntrainedFeatures) -> None:
        """Shows a message of a process, if it is a new one."""
        match message:
            case Notice(text):
                log.warning("%s: %s", peer, text)
                self._show_notice(peer, text)
            case LeftOutData():
                if line := self.left_out.add(message):
                    self._say(line)
            case UntrainedFeatures(share):
                self._show_untrained(share)

    def _show_notice(self, peer: Peer, text: str) -> None:
        if peer.role != WORKER or text not in self._of_workers:
            self._say(text)
        if peer.role == WORKER:
            self._of_workers.add(text)

    def _show_untrained(self, share: UntrainedShare) -> None:
        """Shows once of a field that more than a small share of its features in a validation is never trained."""
        if share.field in self._untrained_fields:
            return
        self._untrained_fields.add(share.field)
        line = share.describe("the validation data were in no batch of a whole pass over the training data")
        line = f"{line}; most often their ids are written otherwise: `loader inspect FILE` counts spellings"
        log.warning("%s", line)
        self._say(line)
