"""The block that says how data was read."""

from __future__ import annotations

from loader.stream.data_facts import DataFact, format_facts


def test_facts_of_one_topic_stand_together_and_equal_ones_once() -> None:
    facts = [
        DataFact("score unit", "centipawns"),
        DataFact("ids", "all integers"),
        DataFact("score unit", "centipawns"),
        DataFact("score unit", "internal units"),
    ]
    assert list(format_facts(facts)) == [
        "how your data was read:",
        "  score unit  centipawns",
        "              internal units",
        "  ids         all integers",
    ]
    assert not list(format_facts([]))
