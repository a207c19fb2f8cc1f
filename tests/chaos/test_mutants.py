"""The table of seeded bugs is up to date, and its harness does what it says. `make chaos-mutants` runs all of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.chaos.mutant_table import MUTANTS, Mutant
from tests.chaos.mutants import Copy, copy, occurrences
from tests.support.paths import ROOT

A_FEW = ("tests.pool.simulation", "--seeds", "300", "--failures", "1", "--processes", "1")


@pytest.fixture(scope="module")
def sources() -> Iterator[Copy]:
    with copy() as made:
        yield made


def named(name: str) -> Mutant:
    return next(mutant for mutant in MUTANTS if mutant.name == name)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_old_text_occurs_exactly_once(mutant: Mutant) -> None:
    assert occurrences(mutant) == 1
    assert mutant.old != mutant.new


def test_names_are_unique() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_sources_as_they_are_pass_in_a_copy(sources: Copy) -> None:
    assert sources.passes(A_FEW)


@pytest.mark.parametrize("name", ["successor does not wait", "reduce in order of arrival"])
def test_a_seeded_bug_is_caught(name: str, sources: Copy) -> None:
    mutant = named(name)
    with sources.broken(mutant):
        assert not sources.passes(A_FEW)
    assert (sources.folder / mutant.file).read_bytes() == (ROOT / mutant.file).read_bytes(), "not mended again"
