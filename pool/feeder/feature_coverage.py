"""Computes what share of the features of a validation occurs in no training batch. Most often the ids of such features
are spelled differently in the two sets of files.

Pure: no sockets, no stream. The share is known once a whole pass over the training data and a whole validation have
been seen, in either order. A field whose share is small is not followed any further. In most runs these are soon all
fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from loader.stream.interface import Cursor, Filled
from loader.stream.schema import BatchSchema, SparseBatch, touched_features
from loader.stream.slots import Slot
from pool.metrics.feature_uses import FeatureUses, FieldUses, UntrainedShare
from pool.metrics.validation_pass import ValidationPass
from pool.process.start import FeederStart

COMPARE_AT = 16  # training batches before the first comparison; then twice as many before each next one


def compares_features(start: FeederStart) -> bool:
    """Returns True if features of training and validation can be compared: features have ids, the run has validations,
    and this feeder builds all batches from files."""
    builds_all = start.share == (0, start.groups.groups_per_step) and len(start.files["train"]) > 0
    return builds_all and "validate" in start.files and start.data["train"].source.has_ids


class FeatureCoverage:
    """Compares the features of the first whole validation with those of a whole pass over the training data.

    Batch k is the same however often it is built (I1), so batches that come again are passed over.
    """

    def __init__(self, schema: BatchSchema, validation: ValidationPass) -> None:
        """Makes a comparison without batches. `schema`: of training batches. `validation`: how many batches and samples
        a validation has."""
        self._schema = schema
        self._validation = validation
        self._in_training = {field.name: np.zeros(field.num_features, bool) for field in schema.sparse}
        self._begin: Cursor | None = None  # where the training batches begin that were seen without a gap
        self._next = 0  # the number of the batch after these
        self._has_whole_pass = False
        self._marked = 0  # training batches whose features are noted
        self._compare_at = COMPARE_AT
        self._uses = FeatureUses()
        self._used: Mapping[str, FieldUses] = {}  # by field: features of a whole validation, and their counts
        self._validated = 0  # validation batches counted, from the first one on

    def add_training(self, filled: Filled, slot: Slot) -> None:
        """Notes which features occur in a training batch, until a whole pass over the training data has been seen."""
        if self._has_whole_pass:
            return
        if self._begin is None or filled.batch > self._next:
            self._begin = filled.cursor
        elif filled.batch < self._next:
            return
        self._next = filled.batch + 1
        for field, touched in touched_features(self._schema, slot, self._in_training).items():
            self._in_training[field][touched] = True
        self._has_whole_pass = filled.next_cursor.epoch > _first_whole_epoch(self._begin)
        self._marked += 1
        if self._marked >= self._compare_at and self._has_validation:
            self._compare_at = 2 * self._marked
            self._forget_small_shares()

    def add_validation(self, filled: Filled, slot: Slot) -> None:
        """Counts the features of a validation batch, until a whole validation has been seen."""
        if filled.batch != self._validated or self._has_validation:
            return
        self._validated += 1
        size = self._validation.size(filled.batch)
        schema = self._schema if size == self._schema.batch_size else replace(self._schema, batch_size=size)
        self._uses.add(SparseBatch.view(schema, slot))
        if self._has_validation:
            self._used, self._uses = self._uses.of_fields(), FeatureUses()

    def shares(self) -> tuple[UntrainedShare, ...] | None:
        """Returns for each field what share of the features in a validation is never trained, for fields in which it is
        not small. None while it can't be known yet."""
        if not self._has_validation or (self._in_training and not self._has_whole_pass):
            return None
        self._forget_small_shares()
        return tuple(self._share(field) for field in self._in_training)

    @property
    def _has_validation(self) -> bool:
        """True if a whole validation has been seen."""
        return self._validated == self._validation.batches

    def _forget_small_shares(self) -> None:
        """Stops following fields whose share of untrained features in the validation is small. With more training
        batches it only gets smaller."""
        for field in list(self._in_training):
            if field not in self._used or self._share(field).is_small:
                del self._in_training[field]

    def _share(self, field: str) -> UntrainedShare:
        """Returns the share of a field's features in the validation that no training batch has had so far."""
        used = self._used[field]
        return used.share(~self._in_training[field][used.features])


def _first_whole_epoch(begin: Cursor) -> int:
    """Returns the first epoch that is seen completely by reading on from `begin`."""
    at_its_beginning = (begin.window, begin.entry) == (0, 0)
    return begin.epoch if at_its_beginning else begin.epoch + 1
