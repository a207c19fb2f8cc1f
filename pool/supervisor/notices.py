"""Shows the notices of a run's processes to the user. What several processes find is shown once."""

from __future__ import annotations

import logging
from collections.abc import Callable

from loader.stream.config import DataConfig
from pool.metrics.feature_uses import UntrainedShare
from pool.protocol.identity import WORKER, Peer
from pool.protocol.messages import Notice, SkippedDataReport, UntrainedFeatures
from pool.supervisor.skipped_summary import SkippedSummary

log = logging.getLogger(__name__)


class Notices:
    """Shows the notices of processes to the user, each one once."""

    def __init__(self, config: DataConfig, print_line: Callable[[str], object]) -> None:
        """Begins with no notices. `config`: settings of the run's data; `print_line`: shows a line to the user."""
        self.skipped = SkippedSummary(config)
        self._print_line = print_line
        self._worker_notices: set[str] = set()  # texts of workers that were shown
        self._untrained_fields: set[str] = set()  # fields that were shown

    def show(self, peer: Peer, message: Notice | SkippedDataReport | UntrainedFeatures) -> None:
        """Shows a message of a process, unless an equal one was shown before."""
        match message:
            case Notice(text):
                log.warning("%s: %s", peer, text)
                self._show_notice(peer, text)
            case SkippedDataReport():
                line = self.skipped.add(message)
                if line is not None:
                    self._print_line(line)
            case UntrainedFeatures(share):
                self._show_untrained(share)

    def _show_notice(self, peer: Peer, text: str) -> None:
        """Shows a notice. Several workers often send the same text, which is shown once."""
        if peer.role == WORKER:
            if text in self._worker_notices:
                return
            self._worker_notices.add(text)
        self._print_line(text)

    def _show_untrained(self, share: UntrainedShare) -> None:
        """Warns the user, once for each field, that many features of the validation data are never trained."""
        if share.field in self._untrained_fields:
            return
        self._untrained_fields.add(share.field)
        finding = share.describe("the validation data were in no batch of a whole pass over the training data")
        line = f"{finding}; most often their ids are written otherwise: `loader inspect FILE` counts spellings"
        log.warning("%s", line)
        self._print_line(line)
