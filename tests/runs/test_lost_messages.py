"""Messages may be lost on every link: what is not said again in time would stop the run (I5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.runs import TOY, run_well

# Goes into every process of a run: of these messages, by kind, each so many is lost, the first one included.
LOSE_SOME = """
from pool.protocol import channel, messages

LOST = {"FeederOrders": 2, "WorkerOrders": 2, "FeederReport": 4, "WorkerReport": 4, "Roster": 3}
said = dict.fromkeys(LOST, 0)


def lossy(send):
    def maybe(self, *arguments):
        name = type(arguments[-1]).__name__
        if name in said:
            said[name] += 1
            if said[name] % LOST[name] == 1:
                return True
        return send(self, *arguments)

    return maybe


channel.Hub.send = lossy(channel.Hub.send)
channel.Link.send = lossy(channel.Link.send)
"""


def test_a_run_that_loses_messages_on_every_link_ends_with_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {**TOY, "train.steps": 3, "pool.devices": ["fake:0", "fake:1", "fake:2"]}
    whole = run_well(tmp_path / "whole", settings)
    (tmp_path / "sitecustomize.py").write_text(LOSE_SOME)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    ended = run_well(tmp_path / "run", settings)
    assert ended.digest() == whole.digest()
