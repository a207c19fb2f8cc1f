"""Statements for people about how data files are read: what a file does not say itself (units, views), and what is left
out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
    if not facts:
        return
    texts_by_topic: dict[str, list[str]] = {}
    for fact in dict.fromkeys(facts):
        texts_by_topic.setdefault(fact.topic, []).append(fact.text)
    width = max(map(len, texts_by_topic))
    yield f"{TITLE}:"
    for topic, (first_text, *other_texts) in texts_by_topic.items():
        yield f"  {topic:{width}}  {first_text}"
        for text in other_texts:
            yield f"  {'':{width}}  {text}"
