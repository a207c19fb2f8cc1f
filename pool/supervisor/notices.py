"""Shows the notices of a run's processes to the user. What several processes find is shown once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from loader.stream.config import DataConfig
from pool.metrics.feature_uses import UntrainedShare
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import Notice, SkippedData, UntrainedFeatures
from pool.supervisor.left_out_summary import LeftOutSummary

log = logging.getLogger(__name__)


class Notices:
    """Receives notices of processes, and shows each new one."""

    def __init__(self, config: DataConfig, say: Callable[[str], object]) -> None:
        """Begins with no notices. `config`: of the run's data; `say`: shows a line to the user."""
        self.left_out = LeftOutSummary(config)
        self._say = say
        self._of_workers: set[str] = set()  # texts of workers that were shown
        self._untrained_fields: set[str] = set()  # fields that were shown

    def hear(self, peer: Peer, message: Notice | SkippedData | UntrainedFeatures) -> None:
        """Shows a message of a process, if the same was not shown before."""
        match message:
            case Notice(text):
                log.warning("%s: %s", peer, text)
                self._show_notice(peer, text)
            case SkippedData():
                if line := self.left_out.add(message):
                    self._say(line)
            case UntrainedFeatures(share):
                self._show_untrained(share)

    def _show_notice(self, peer: Peer, text: str) -> None:
        """Shows a line of text. Of workers, which often find the same, each text is shown once."""
        if peer.role != WORKER or text not in self._of_workers:
            self._say(text)
        if peer.role == WORKER:
            self._of_workers.add(text)

    def _show_untrained(self, share: UntrainedShare) -> None:
        """Shows a line about a field many of whose features in the validation data are never trained. Once for each
        field."""
        if share.field in self._untrained_fields:
            return
        self._untrained_fields.add(share.field)
        line = share.describe("the validation data were in no batch of a whole pass over the training data")
        line = f"{line}; most often their ids are written otherwise: `loader inspect FILE` counts spellings"
        log.warning("%s", line)
        self._say(line)
