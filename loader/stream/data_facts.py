"""Statements for people about how data files are read: what a file does not say itself (units, views), and what is left
out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

TITLE = "how your data was read"


@dataclass(frozen=True)
class DataFact:
    """One statement about how data files are read. `topic`: a noun that several statements may share, as "score
    unit"."""

    topic: str
    text: str  # one line


def format_facts(facts: Sequence[DataFact]) -> Iterator[str]:
    """Yields the lines of the text block that shows the facts: a title, then one line for each different fact, grouped
    by topic. Yields nothing if there are no facts."""
    different = list(dict.fromkeys(facts))
    topics = list(dict.fromkeys(fact.topic for fact in different))
    if not topics:
        return
    width = max(map(len, topics))
    yield f"{TITLE}:"
    ordered = sorted(different, key=lambda fact: topics.index(fact.topic))
    for topic, group in groupby(ordered, lambda fact: fact.topic):
        for number, fact in enumerate(group):
            yield f"  {'' if number else topic:{width}}  {fact.text}"
