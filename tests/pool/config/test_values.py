"""What a user writes in a config arrives as it is written wherever it is needed, or one line names the key."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from annotated_types import Ge, Gt, Le, Lt
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic.fields import FieldInfo

from loader.section import union_types
from loader.stream.interface import Cursor
from pool.checkpoint.state import OPTIMIZER, WEIGHTS, OptimizerNumbers, SavedState, encode_state, read_state
from pool.checkpoint.tensor_file import FileSums
from pool.config.key_path import walk_fields
from pool.config.load import load_config, parse_config
from pool.config.tree import Config, config_class
from pool.errors import ConfigError
from pool.metrics.layout import MOST
from pool.process.start import CoordinatorStart, decode_start
from pool.protocol.codec import MAX_INT, Envelope, decode, encode
from pool.protocol.identity import COORDINATOR, SUPERVISOR, Peer
from pool.protocol.messages import MetricValue, RunReport, Shares
from pool.supervisor.resources.run_folder import RunFolder
from pool.telemetry.progress import describe
from tests.support.run_plans import planned, run_plan
from tests.support.runs import toml_value

TASKS = ("stockfish", "tests.support.toy")

SCALARS = (
    st.booleans()
    | st.integers()
    | st.integers(min_value=-(1 << 80), max_value=1 << 80)
    | st.floats()
    | st.sampled_from([math.inf, -math.inf, math.nan, -0.0, 0.0, 5e-324, 1e308, 1 << 63, -(1 << 63) - 1, ""])
    | st.text(max_size=12)
)
DATES = st.dates() | st.times() | st.datetimes() | st.datetimes(timezones=st.just(datetime.UTC))
KEYS = st.text(max_size=8)


def tables(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    values = st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
        max_leaves=10,
    )
    return st.dictionaries(KEYS, values, max_size=4)


def same(one: Any, other: Any) -> bool:
    """Equal in type and bits: nan is itself, and -0.0 is not 0.0."""
    return repr(one) == repr(other)


def everywhere(config: Config, folder: Path) -> Iterator[tuple[str, Config]]:
    """The config as processes, config.json and state.json have it."""
    start = run_plan(folder, config=config, answer=planned()).start_document(Peer(COORDINATOR))
    received = decode_start(start.to_json(), folder)
    assert isinstance(received, CoordinatorStart)
    yield "a process", received.config
    run = RunFolder(config.model_copy(update={"run": config.run.model_copy(update={"dir": str(folder)})}), resume=True)
    run.write_config(config)
    run.close()
    recorded = json.loads((folder / "config.json").read_bytes())
    del recorded["overrides"]
    yield "config.json", parse_config(recorded, "config.json")
    sums = FileSums(8, 8, "0" * 64, {})
    state = SavedState(
        step=1,
        cursor=Cursor(0, 0, 0, 0),
        config=config.model_dump(mode="json"),
        fingerprint={},
        data=(),
        optimizer=OptimizerNumbers({}, [], []),
        files={WEIGHTS: sums, OPTIMIZER: sums},
    )
    (folder / "state.json").write_bytes(encode_state(state))
    yield "state.json", parse_config(read_state(folder).config, "state.json")


@settings(max_examples=60, deadline=None)
@given(table=tables(SCALARS), section=st.sampled_from(["optimizer", "schedule"]), by_set=st.booleans())
@example(table={"max_norm": math.inf, "x": [math.nan, {"y": -math.inf}]}, section="optimizer", by_set=False)
@example(table={"max_norm": math.inf}, section="schedule", by_set=True)
@example(table={"betas": [], "table": {}, "zero": -0.0}, section="optimizer", by_set=True)
@example(table={"\0\n": 1 << 200}, section="optimizer", by_set=False)
def test_every_value_of_a_free_table_arrives_everywhere(
    table: dict[str, Any], section: str, by_set: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "values"
    folder.mkdir(exist_ok=True)
    written = f"{section}.args = {toml_value(table)}\n"
    file = folder / "run.toml"
    file.write_text('task = "tests.support.toy"\n' + ("" if by_set else written), encoding="utf-8")
    config = load_config(file, [f"{section}.args={toml_value(table)}"] if by_set else [])
    assert same(getattr(config, section).args, table)
    for place, found in everywhere(config, folder):
        assert same(getattr(found, section).args, table), place
        assert same(found, config), place


@settings(deadline=None)
@given(table=tables(DATES | SCALARS), date=DATES)
def test_a_date_or_time_is_one_line_that_names_its_key(table: dict[str, Any], date: Any) -> None:
    tree = {"task": "tests.support.toy", "optimizer": {"args": {"inner": {**table, "when": date}}}}
    with pytest.raises(ConfigError, match=r"here: optimizer\.args\.inner\..*: a date or time can't be a setting"):
        parse_config(tree, "here")


@pytest.mark.parametrize(
    ("tree", "complaint"),
    [
        ({"optimizer": {"args": {"a": {"b": 1 << 20_000}}}}, "optimizer.args.a.b: an integer of more than"),
        ({"optimizer": {"args": {"a b": "\udc80"}}}, 'optimizer.args."a b": text that is not UTF-8'),
        ({"run": {"dir": "\udc80"}}, "run.dir: text that is not UTF-8"),
        ({"train": {"steps": datetime.date(2026, 1, 1)}}, "train.steps: a date or time"),
    ],
    ids=["huge integer", "bytes", "bytes of a name", "date"],
)
def test_what_can_not_arrive_is_named(tree: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_config(tree, "here")
    assert str(error.value).startswith(f"here: {complaint}")


def test_tables_nested_too_deeply_are_named() -> None:
    tree: dict[str, Any] = {}
    for _ in range(1000):
        tree = {"a": tree}
    with pytest.raises(ConfigError, match=r"here: optimizer\.args\.a.* \.\.\.: nested too deeply"):
        parse_config({"optimizer": {"args": tree}}, "here")


# --- --set ---


@pytest.mark.parametrize(
    "override",
    [
        "optimizer.args.lr=1e-3x",
        "optimizer.args.fused=True",
        "schedule.args.mode=min",
        "optimizer.args.a.b=",
        "optimizer.args.lr=1\n2",
    ],
)
def test_text_without_quotes_is_refused_where_its_type_is_not_known(override: str, tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    key, _, value = override.partition("=")
    with pytest.raises(ConfigError, match=f"--set {key}=.*: not a TOML value; text needs quotes here") as error:
        load_config(tmp_path / "run.toml", [override])
    assert len(str(error.value).splitlines()) == 1
    if "\n" not in value:
        quoted = f'{key}="{value}"'
        assert quoted in str(error.value)
        load_config(tmp_path / "run.toml", [quoted])


def test_a_line_end_in_a_value_hides_nothing_behind_it(tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    config = load_config(tmp_path / "run.toml", ["run.dir=1\ntrain = 2"])
    assert config.run.dir == "1\ntrain = 2"


def test_the_file_of_a_trace_is_taken_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "run.toml").touch()
    for name in ('a"b', "a\x7fb", "5", "~/trace", "a#b"):
        assert load_config(tmp_path / "run.toml", trace=Path(name)).run.trace == name


# --- numbers ---


def numeric_keys() -> list[tuple[str, str, FieldInfo]]:
    """Task, key and field of every number of the tree; those of the toy task's own sections left out."""
    return [
        (task, key, field)
        for task in TASKS
        for key, field in walk_fields(config_class(task))
        if {int, float} & set(union_types(field.annotation))
        and (task == "stockfish" or not key.startswith(("model.", "loss.")))
    ]


NUMERIC = numeric_keys()
EXTREME: list[Any] = [
    *(0, 1, -1, 5, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, 2**70, -(2**63) - 1, 10**400),
    *(0.0, -0.0, 1e-308, 5e-324, 1e308, -1e308, 1e6, 0.5, 1.5, math.inf, -math.inf, math.nan),
]


def bounds(field: FieldInfo) -> tuple[float | None, float | None]:
    """The lowest and the highest value, both allowed."""
    low = high = None

    def beside(limit: Any, side: int) -> float:
        """The next number that is not the limit."""
        return limit + side if int in union_types(field.annotation) else math.nextafter(limit, side * math.inf)

    of_kinds = [entry for kind in get_args(field.annotation) for entry in getattr(kind, "__metadata__", ())]
    for entry in (*field.metadata, *of_kinds):
        if isinstance(entry, Ge | Gt):
            low = entry.ge if isinstance(entry, Ge) else beside(entry.gt, 1)
        elif isinstance(entry, Le | Lt):
            high = entry.le if isinstance(entry, Le) else beside(entry.lt, -1)
    return low, high  # type: ignore[return-value]


@pytest.mark.parametrize(("task", "key", "field"), NUMERIC, ids=[f"{task}:{key}" for task, key, _ in NUMERIC])
def test_every_numeric_key_has_both_limits(task: str, key: str, field: FieldInfo) -> None:
    low, high = bounds(field)
    assert low is not None, f"{key} has no ge or gt"
    assert high is not None, f"{key} has no le or lt"
    assert low <= high, task
    if int in union_types(field.annotation):
        assert -MAX_INT <= low <= high < MAX_INT


def tree_of(task: str, values: dict[str, Any]) -> dict[str, Any]:
    tree: dict[str, Any] = {"task": task}
    for key, value in values.items():
        *sections, name = key.split(".")
        place = tree
        for section in sections:
            place = place.setdefault(section, {})
        place[name] = value
    return tree


@settings(deadline=None)
@given(st.lists(st.sampled_from(NUMERIC), min_size=1, max_size=4), st.data())
def test_any_number_for_any_numeric_key_gives_a_config_or_one_line_that_names_it(
    keys: list[tuple[str, str, FieldInfo]], data: st.DataObject
) -> None:
    numbers = st.sampled_from(EXTREME) | st.integers() | st.floats()
    values = {key: data.draw(numbers, label=key) for task, key, _ in keys if task == keys[0][0]}
    said = None
    try:
        config = parse_config(tree_of(keys[0][0], values), "here")
    except ConfigError as error:
        said = str(error)
    if said is not None:
        assert len(said.splitlines()) == 1
        assert any(f"here: {key}: " in said for key in values) or "pool.ring_slots" in said
        return
    for key, value in values.items():
        found: Any = config
        for part in key.split("."):
            found = getattr(found, part)
        assert found == type(found)(value)  # a float key takes an integer as the nearest float
        assert math.isfinite(found) if isinstance(found, float) else -MAX_INT < found < MAX_INT


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("material_min", 79, "79 is above material_max = 78"),
        ("material_max", 16, "16 is below material_min = 17"),
    ],
)
def test_of_two_keys_that_do_not_fit_together_the_one_that_is_given_is_named(key: str, value: int, said: str) -> None:
    section = "data.chess.filters.viriformat"
    with pytest.raises(ConfigError, match=f"^here: {section}.{key}: {said}$"):
        parse_config(tree_of("stockfish", {f"{section}.{key}": value}), "here")


# By key: without which it is refused.
NEEDED: dict[str, dict[str, Any]] = {
    "train.average.start": {"train.average.kind": "ema"},
    "train.average.every": {"train.average.kind": "ema"},
    "schedule.plateau.cooldown": {"schedule.plateau.patience": 1},
}
INTEGERS = [(task, key, field) for task, key, field in NUMERIC if int in union_types(field.annotation)]


@pytest.mark.parametrize(("task", "key", "field"), INTEGERS, ids=[f"{task}:{key}" for task, key, _ in INTEGERS])
def test_an_integral_float_is_an_integer_and_another_float_is_refused(task: str, key: str, field: FieldInfo) -> None:
    low, high = bounds(field)
    assert low is not None
    assert high is not None
    value = 64 if low <= 64 <= high else int(high)
    section, name = key.rsplit(".", 1)
    config: Any = parse_config(tree_of(task, {**NEEDED.get(key, {}), key: float(value)}), "here")
    for part in section.split("."):
        config = getattr(config, part)
    assert type(getattr(config, name)) is int
    assert getattr(config, name) == value
    with pytest.raises(ConfigError, match=f"here: {key}: input should be a valid integer"):
        parse_config(tree_of(task, {key: value + 0.5}), "here")


def test_a_refused_number_says_what_the_key_means() -> None:
    with pytest.raises(ConfigError, match=r"greater than or equal to 1, not 0\.5 \(.*every half second each one says"):
        parse_config({"pool": {"hang_timeout": 0.5}}, "here")


def test_the_largest_run_can_be_reported_and_shown() -> None:
    """Its steps, batches and samples fit the words of messages."""
    largest = {
        key: bounds(field)[1]
        for key, field in walk_fields(config_class("stockfish"))
        if {int} & set(union_types(field.annotation))
    }
    steps, per_step, batch = (largest[f"{key}"] for key in ("train.steps", "train.batches_per_step", "data.batch_size"))
    assert steps is not None
    assert per_step is not None
    assert batch is not None
    report = RunReport(
        step=int(steps) - 1,
        steps=int(steps),
        epoch=1 << 40,
        samples_per_step=int(per_step * batch),
        samples=int(steps * per_step * batch),
        seconds=1.0,
        losses=(1.0,),
        validation_losses=(1.0,),
        validation_step=int(steps) - 1,
        learning_rate=1.0,
        shares=Shares(),
        compute_seconds=1e9,
        checkpoint=int(steps) - 1,
        finished=False,
        best_step=int(steps) - 1,
        best_value=1.0,
        best_metric="x" * 32,
        validation_metrics=tuple(MetricValue("x" * 32, (1.0,)) for _ in range(MOST)),
    )
    envelope = Envelope(Peer(COORDINATOR), Peer(SUPERVISOR), 1, report)
    assert decode(encode(envelope)) == envelope
    assert f"/{int(steps)}" in describe(report)


def test_choices_are_no_numbers() -> None:
    """`NUMERIC` would miss a Literal of numbers."""
    for task in TASKS:
        for _, field in walk_fields(config_class(task)):
            for kind in union_types(field.annotation):
                assert get_origin(kind) is not Literal or all(isinstance(choice, str) for choice in get_args(kind))
