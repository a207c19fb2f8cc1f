"""Slurm's lists of hosts."""

from __future__ import annotations

from itertools import islice, product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.machines.slurm import expand_hosts


@pytest.mark.parametrize(
    ("node_list", "hosts"),
    [
        ("login", "login"),
        ("a,b-1,c", "a b-1 c"),
        ("gpu[03-05,7],login", "gpu03 gpu04 gpu05 gpu7 login"),
        ("rack[0-1]_blade[0-1]", "rack0_blade0 rack0_blade1 rack1_blade0 rack1_blade1"),
        ("node[01-02]-ib,node[1]-ib.x", "node01-ib node02-ib node1-ib.x"),
        ("[8-11]", "8 9 10 11"),
        ("n[098-101]", "n098 n099 n100 n101"),
        ("n[0-6:3]x", "n0x n3x n6x"),
    ],
)
def test_hosts_of_a_list(node_list: str, hosts: str) -> None:
    assert list(expand_hosts(node_list)) == hosts.split()


@pytest.mark.parametrize("node_list", ["", "a[", "a[]", "a[1-]", "a[2-1]", "a]", "a,,b", "a[1[2]]", "a[x]", "a[1-2:0]"])
def test_what_is_no_list_is_refused(node_list: str) -> None:
    with pytest.raises(ValueError, match=r"host|numbers|end"):
        list(expand_hosts(node_list))


def test_the_first_host_of_a_long_list_takes_no_memory() -> None:
    assert list(islice(expand_hosts("n[0-99999999999999]x[1-9999999999]"), 2)) == ["n0x1", "n0x2"]


words = st.text("abz.-_", min_size=1, max_size=4)


@st.composite
def brackets(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draws a bracket, and the numbers in it as they are counted by hand."""
    texts, numbers = [], []
    for _ in range(draw(st.integers(1, 3))):
        first, count, width = draw(st.integers(0, 120)), draw(st.integers(1, 12)), draw(st.integers(1, 4))
        texts.append(f"{first:0{width}}" + (f"-{first + count - 1:0{width}}" if count > 1 else ""))
        numbers += [f"{number:0{width}}" for number in range(first, first + count)]
    return f"[{','.join(texts)}]", numbers


@st.composite
def names(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Draws words and brackets one after the other, and the hosts that they name."""
    parts: list[tuple[str, list[str]]] = draw(
        st.lists(st.one_of(words.map(lambda word: (word, [word])), brackets()), min_size=1, max_size=3)
    )
    return "".join(text for text, _ in parts), ["".join(chosen) for chosen in product(*(each for _, each in parts))]


@given(st.lists(names(), min_size=1, max_size=3))
def test_all_hosts_of_any_list(drawn: list[tuple[str, list[str]]]) -> None:
    assert list(expand_hosts(",".join(text for text, _ in drawn))) == [host for _, hosts in drawn for host in hosts]
