"""Checks a run's history.jsonl: every batch of every step added up once, in order, whoever died meanwhile (I2, I9)."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass
class Step:
    """One step as one incarnation of the coordinator does it."""

    folded: dict[int, list[int]] = field(default_factory=dict)  # by bucket: batches, in the order they were added
    updated: set[int] = field(default_factory=set)  # buckets


class HistoryChecker:
    """Feed it the lines in order; raises AssertionError at the first thing that must not be."""

    def __init__(self, batches_per_step: int, buckets: int) -> None:
        self._batches_per_step = batches_per_step
        self._buckets = buckets
        self.hashes: dict[int, str] = {}  # by version of the weights
        self.incarnations = 0
        self._next = 0
        self._step = Step()

    def check(self, record: dict[str, Any]) -> None:
        if "begin" in record:
            self._begin(record["begin"], record["hash"])
        elif "fold" in record:
            self._fold(record)
        elif "update" in record:
            self._update(record)
        elif "commit" in record:
            self._commit(record["commit"], record["hash"])

    def _begin(self, step: int, digest: str) -> None:
        made = max(self.hashes, default=step)
        if self._step.updated == set(range(self._buckets)):
            made += 1  # committed, but dead before it could write that down
        assert step <= made, f"an incarnation begins with version {step}, which nobody made"
        self.incarnations += 1
        self._next = step
        self._step = Step()
        self._version(step, digest)

    def _fold(self, record: dict[str, Any]) -> None:
        assert record["fold"] == self._next, f"fold for step {record['fold']} in step {self._next}"
        bucket = record["bucket"]
        assert bucket not in self._step.updated, f"step {self._next}: bucket {bucket} is folded after its update"
        if record["first"]:
            self._step.folded[bucket] = []
        self._step.folded[bucket] += record["batches"]

    def _update(self, record: dict[str, Any]) -> None:
        assert record["update"] == self._next, f"update for step {record['update']} in step {self._next}"
        bucket = record["bucket"]
        first = self._next * self._batches_per_step
        expected = list(range(first, first + self._batches_per_step))
        assert self._step.folded.get(bucket) == expected, (
            f"step {self._next}, bucket {bucket}: batches {self._step.folded.get(bucket)} instead of {expected}"
        )
        assert bucket not in self._step.updated, f"step {self._next}: bucket {bucket} is updated twice"
        self._step.updated.add(bucket)

    def _commit(self, step: int, digest: str) -> None:
        assert step == self._next, f"commit of step {step} in step {self._next}"
        assert self._step.updated == set(range(self._buckets)), f"step {step} is committed after {self._step.updated}"
        self._next += 1
        self._step = Step()
        self._version(self._next, digest)

    def _version(self, version: int, digest: str) -> None:
        known = self.hashes.setdefault(version, digest)
        assert known == digest, f"version {version} has other bits than when it was made before"


def check_history(path: Path, batches_per_step: int, buckets: int) -> HistoryChecker:
    """The whole file; a last line that was cut by the machine's death would be an error, for there is none here."""
    checker = HistoryChecker(batches_per_step, buckets)
    for line in path.read_text(encoding="utf-8").splitlines():
        checker.check(json.loads(line))
    return checker
