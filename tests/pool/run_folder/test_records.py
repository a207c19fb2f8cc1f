"""A file of records that is read while it grows, and is cut when a run takes steps back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pool.coordinator.metrics.records import remove_after
from pool.errors import ConfigError
from pool.run_folder.records import METRICS, RecordFile, read_records

ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("steps"), st.integers(1, 5)),
        st.tuples(st.just("back to"), st.integers(0, 20)),
        st.tuples(st.just("torn"), st.integers(1, 12)),
        st.tuples(st.just("look"), st.just(0)),
        st.tuples(st.just("remove"), st.just(0)),
    ),
    max_size=30,
)


@given(ACTIONS)
def test_a_reader_that_looks_now_and_then_has_what_one_that_reads_all_has(
    tmp_path_factory: pytest.TempPathFactory, actions: list[tuple[str, int]]
) -> None:
    path = tmp_path_factory.mktemp("run") / METRICS
    file, followed, written, step = RecordFile(path), list[object](), 0, 0
    for action, number in [*actions, ("look", 0)]:
        if action == "steps":
            with path.open("ab") as out:
                if path.stat().st_size and not path.read_bytes().endswith(b"\n"):
                    out.write(b"\n")  # as a successor's LineFile does
                for _ in range(number):
                    step, written = step + 1, written + 1
                    out.write(json.dumps({"step": step, "loss": 1 / written}).encode() + b"\n")
        elif action == "back to":
            step = min(step, number)
            remove_after(path, step)
        elif action == "torn":
            with path.open("ab") as out:
                out.write(b'{"step": 99, "loss": 1}'[:number])
        elif action == "remove":
            path.unlink(missing_ok=True)
        else:
            if not file.continues():
                followed.clear()
            followed += file.read()
            assert followed == list(read_records(path))


def test_what_is_no_record_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / METRICS
    strange: list[dict[str, object]] = [
        {"loss": "x"},
        {"time": [None]},
        {"members": []},
        {"members": {"loss": 1}},
        {"members": {"loss": ["x"]}},
    ]
    lines = "".join(json.dumps({"step": 5, **each}) + "\n" for each in strange).encode()
    others = [b"\xff", b"[]", b'{"step": true}', b"[" * 3000, b"x" * (3 << 20)]
    path.write_bytes(b"\n".join([*others, lines + b'{"step": 1}', b'{"step": 2}']))
    assert list(read_records(path)) == [{"step": 1}]


@pytest.mark.parametrize("text", ["null", "NaN", "Infinity"])
def test_null_is_no_number_and_what_older_versions_wrote_is_read(text: str, tmp_path: Path) -> None:
    (tmp_path / METRICS).write_text(f'{{"step": 1, "loss": {text}, "members": {{"loss": [0.5, {text}]}}}}\n')
    (record,) = read_records(tmp_path / METRICS)
    wanted = [0.5, float(text.replace("null", "nan"))]
    np.testing.assert_equal([record["step"], record["loss"], *record["members"]["loss"]], [1, wanted[1], *wanted])


def test_a_pipe_or_a_link_in_the_place_of_the_file_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    for name in ("pipe", "link"):
        with pytest.raises(ConfigError, match=name):
            list(read_records(tmp_path / name))
