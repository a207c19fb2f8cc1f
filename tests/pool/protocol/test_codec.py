"""Messages: what is said arrives as it was said, and nothing else arrives."""

from __future__ import annotations

from typing import Any, get_args

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loader.stream.interface import Cursor
from loader.stream.skipped_data import SkippedData
from pool.config.ensemble import MAX_GROUP_LOSSES, MAX_MEMBERS
from pool.coordinator.scheduler.worker_pool import MAX_ASSIGNMENTS
from pool.errors import ProtocolError
from pool.machines.rank import MAX_SHARE_BATCHES, MAX_SHARE_LOSSES
from pool.metrics.feature_uses import UntrainedShare
from pool.protocol import messages as m
from pool.protocol.codec import MAX_BYTES, Envelope, decode, encode
from pool.protocol.identity import Peer

ME, YOU = Peer("worker", 1, 2), Peer("coordinator")
CURSOR = Cursor(7, 1, 2, 3)
OUTCOMES = m.Outcome((0.25,), ("",)), m.Outcome((0.5,))
ASSIGNMENT = m.Assignment("train", 3, (7, 8), 1, 9, left_out=(m.ExcludedBatch(8, 1),))
EXAMPLES: list[m.Message] = [
    m.Hello(123),
    m.Heartbeat(0.5),
    m.Roster((m.RosterEntry("worker", 0, 1, 4711),), True),
    m.RunReport(1, 9, 0, 64, 64, 0.5, (0.1,), (float("inf"), 2.0), 1, 1e-3, m.Shares(0.7, 0.1), 1.5, -1, False, 4, 0.5),
    m.Notice("disk full"),
    m.FeederOrders(m.StreamOrders(1, CURSOR, 3), None),
    m.FeederReport(None, m.StreamReport(1, 7, (CURSOR, CURSOR))),
    m.SkippedDataReport("train", 3, (SkippedData("damaged", 7, 1, "game", "a.pgn", "line 4 of the game: '?'", 80, 3),)),
    m.UntrainedFeatures(UntrainedShare("user", 10, 7, 100, 70)),
    m.WorkerOrders(3, (ASSIGNMENT,)),
    m.WorkerReport(
        (m.AssignmentReport(ASSIGNMENT, (0, 2), (), OUTCOMES),),
        m.Times(1.0, 2.0, 3.0),
    ),
    m.ShareReport(
        4,
        (m.BatchLosses(16, (0.5, 2.0)),),
        (m.UnusableBatch(17, (1,), "a gradient"),),
        "snapshot",
        m.StateSum(4, -7),
    ),
    m.BucketSums(4, 1, (m.SumHeader(0, 32, 2, 5), m.SumHeader(1, 0, 2, -1))),
    m.MachineReport("life", "tcp://10.0.0.2:4711", (m.Fact("torch", "2.13.0"),), (0, 6), (6,), lost=2),
    m.MachineOrders("life", 2, 6, "", (m.MachineAddress(1, "tcp://10.0.0.2:4712"),), missing=(2,)),
    m.MachineOrders("life", missing=(2,), lacks=m.CheckpointLocation(400, 1)),
    m.CheckpointRequest(400, "weights.safetensors", 1 << 20),
    m.CheckpointShard(m.CheckpointRequest(400, "weights.safetensors", 1 << 20), is_last=True),
]


def test_every_kind_of_message_has_an_example_here() -> None:
    assert {type(example) for example in EXAMPLES} == set(get_args(m.Message))


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_a_message_arrives_as_it_was_sent(message: m.Message) -> None:
    envelope = Envelope(ME, YOU, 5, message)
    assert decode(encode(envelope)) == envelope


def changed(message: m.Message, change: Any) -> bytes:
    body = msgpack.unpackb(encode(Envelope(ME, YOU, 5, message)))
    change(body)
    return msgpack.packb(body)  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        (lambda body: body.__setitem__(0, "Nonsense"), "unknown kind 'Nonsense'"),
        (lambda body: body.__setitem__(0, 7), "not an envelope"),
        (lambda body: body.append(1), "not an envelope"),
        (lambda body: body.__setitem__(3, True), "WorkerOrders.sequence: expected an integer"),
        (lambda body: body[1].pop(), "WorkerOrders.sender: expected the 3 fields of Peer"),
        (lambda body: body[4].__setitem__(0, 1.5), "WorkerOrders.version: expected an integer"),
        (lambda body: body[4][1][0].__setitem__(0, "play"), "assignments[0].purpose: expected one of train, validate"),
        (lambda body: body[4].__setitem__(1, 3), "WorkerOrders.assignments: expected a list"),
    ],
)
def test_a_wrong_field_is_named(change: Any, complaint: str) -> None:
    with pytest.raises(ProtocolError) as error:
        decode(changed(m.WorkerOrders(3, (ASSIGNMENT,)), change))
    assert complaint in str(error.value)


def test_what_is_too_long_is_refused_on_both_ends() -> None:
    with pytest.raises(ProtocolError, match="longer than"):
        decode(b"\0" * (MAX_BYTES + 1))
    with pytest.raises(ProtocolError, match="more than"):
        encode(Envelope(ME, YOU, 1, m.Notice("x" * MAX_BYTES)))


def test_the_longest_ring_that_the_config_allows_fits_in_a_report() -> None:
    cursors = tuple(Cursor((1 << 40) + i, 1 << 20, 1 << 20, 1 << 40) for i in range(16_001))
    report = m.FeederReport(m.StreamReport(1 << 40, 1 << 40, cursors), None)
    assert decode(encode(Envelope(ME, YOU, 1, report))).message == report


def test_the_largest_share_of_a_step_that_several_machines_may_have_fits_in_a_report() -> None:
    """All of its batches are bad for all members but one."""
    batches = range(1 << 40, (1 << 40) + MAX_SHARE_BATCHES)
    losses = tuple(m.BatchLosses(batch, (float("nan"),) * (MAX_SHARE_LOSSES // MAX_SHARE_BATCHES)) for batch in batches)
    unusable = tuple(m.UnusableBatch(batch, (0,), "x" * 200) for batch in batches)
    report = m.ShareReport(1 << 40, losses, unusable)
    assert encode(Envelope(ME, YOU, 1, report))


def test_the_largest_groups_that_the_config_allows_fit_in_orders_and_reports() -> None:
    """All that can be said of them: no number of any member is finite, and all of them lose all batches."""
    members, batches = MAX_MEMBERS, range(1 << 40, (1 << 40) + MAX_GROUP_LOSSES // MAX_MEMBERS)
    left_out = tuple(m.ExcludedBatch(batch, member) for batch in batches for member in range(members))
    assignment = m.Assignment("train", 1 << 40, tuple(batches), 1, 1 << 40, left_out=left_out)
    names = tuple(f"member.{member}.{'layers.' * 10}weight" for member in range(members))
    outcomes = (m.Outcome((float("nan"),) * members, names),) * len(batches)
    report = m.WorkerReport((m.AssignmentReport(assignment, (), (), outcomes),) * MAX_ASSIGNMENTS, m.Times())
    orders = m.WorkerOrders(1 << 40, (assignment,) * MAX_ASSIGNMENTS)
    for message in (report, orders):
        assert type(decode(encode(Envelope(ME, YOU, 1, message))).message) is type(message)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_answer(data: bytes) -> None:
    """I8."""
    with pytest.raises(ProtocolError):
        decode(data)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=6),
    max_leaves=20,
)


@given(st.sampled_from(sorted(kind.__name__ for kind in get_args(m.Message))), PLAIN)
def test_arbitrary_fields_give_a_message_or_an_answer(kind: str, fields: Any) -> None:
    data = msgpack.packb([kind, ["worker", 0, 1], ["coordinator", 0, 1], 1, fields])
    try:
        envelope = decode(data)
    except ProtocolError:
        return
    assert type(envelope.message).__name__ == kind
    decode(encode(envelope))
