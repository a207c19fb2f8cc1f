"""Lists every key of a config with its meaning, default and allowed values, read from the config's own classes.

`pool settings` and docs/reference/configuration.md are made from it, so that neither can be wrong. Free of torch.
"""

from __future__ import annotations

import json
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from inspect import cleandoc
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import annotated_types as limits
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from loader.section import Effect, union_types
from loader.stream.sources import SOURCES
from pool.config.stages import EndConfig, StageConfig
from pool.config.tree import config_class

_WORDS = {int: "integer", float: "number", str: "text", bool: "true or false", dict: "table", tuple: "list"}
_RECIPE: dict[str, type[BaseModel]] = {"stages": EndConfig, "stage": StageConfig}
_TASK_SECTIONS = ("model", "loss")
_COLUMNS = ("key", "default", "allowed", "effect", "meaning")


@dataclass(frozen=True)
class Setting:
    """A key of the config, described as text."""

    key: str
    default: str  # formatted as TOML
    allowed: str
    effect: str  # on the weights that a run ends with
    meaning: str


@dataclass(frozen=True)
class Group:
    """A section of the config; `name` is "" for the keys before the first section."""

    name: str
    about: str
    settings: tuple[Setting, ...]


def groups(task: str, sources: Sequence[str] = tuple(SOURCES.bundled)) -> list[Group]:
    """Returns all settings of a run of `task` with data of one of `sources`, in the order of the config's classes.

    Raises ConfigError for an unknown task or source.
    """
    groups: dict[str, Group] = {}
    for source in sources:
        cls = config_class(task, source)
        groups |= {group.name: group for group in _walk(cls, cls(), "")}
    groups |= {
        name: Group(name, cleandoc(cls.__doc__ or ""), _settings(cls, f"{name}.")) for name, cls in _RECIPE.items()
    }
    tops = list(dict.fromkeys(name.partition(".")[0] for name in groups))
    return sorted(groups.values(), key=lambda group: tops.index(group.name.partition(".")[0]))


def markdown(task: str, sources: Sequence[str] = tuple(SOURCES.bundled)) -> str:
    """Returns the text of the page docs/reference/configuration.md."""
    parts = [_INTRODUCTION]
    for group in groups(task, sources):
        parts.append(f"## {_title(group, task)}\n")
        if group.about:
            parts.append(f"{_paragraphs(group.about)}\n")
        rows = [f"| {' | '.join(_COLUMNS)} |", "|---" * len(_COLUMNS) + "|"]
        rows += [
            f"| {' | '.join((f'`{s.key}`', f'`{s.default}`' if s.default else '', *map(_cell, words)))} |"
            for s in group.settings
            for words in [(s.allowed, s.effect, s.meaning)]
        ]
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def plain(task: str, sources: Sequence[str] = tuple(SOURCES.bundled)) -> str:
    """Returns the settings as plain text, with two lines for each key."""
    lines = []
    for group in groups(task, sources):
        lines += [_title(group, task), *([group.about] if group.about else [])]
        for s in group.settings:
            lines += [
                f"  {s.key} = {s.default or '(not set)'}    {s.allowed}    effect: {s.effect}",
                f"      {s.meaning}",
            ]
        lines.append("")
    return "\n".join(lines)


def show(console: Console, task: str, sources: Sequence[str] = tuple(SOURCES.bundled)) -> None:
    """Prints the settings as tables on a terminal."""
    for group in groups(task, sources):
        about = Text(group.about) if group.about else None
        table = Table(
            Column(_COLUMNS[0], no_wrap=True),
            *_COLUMNS[1:],
            title=Text(_title(group, task)),
            title_justify="left",
            caption=about,
        )
        for s in group.settings:
            table.add_row(*map(Text, (s.key, s.default or "(not set)", s.allowed, s.effect, s.meaning)))
        console.print(table)


def _walk(cls: type[BaseModel], values: BaseModel, prefix: str) -> Iterator[Group]:
    """Yields the section `cls` and then the sections nested in it. `values`: an instance with the defaults."""
    sections = {name: value for name, value in values if isinstance(value, BaseModel)}
    settings = _settings(cls, prefix, tuple(sections))
    if settings:
        about = (cls.__dict__.get("__doc__") or "") if prefix else ""
        yield Group(prefix.removesuffix("."), cleandoc(about), settings)
    for name, value in sections.items():
        yield from _walk(type(value), value, f"{prefix}{name}.")


def _settings(cls: type[BaseModel], prefix: str, but_not: Sequence[str] = ()) -> tuple[Setting, ...]:
    """Returns the settings of a section, except those named in `but_not`."""
    return tuple(
        Setting(
            f"{prefix}{name}",
            "" if field.is_required() else _toml(field.get_default(call_default_factory=True)),
            _allowed(field),
            Effect.of(field).value,
            field.description or "",
        )
        for name, field in cls.model_fields.items()
        if name not in but_not
    )


def _title(group: Group, task: str) -> str:
    """Returns the heading of a section."""
    if not group.name:
        return "Before the first section"
    if group.name == "stage":
        return "[[stage]]"
    return f"[{group.name}]" + (f" of task {task}" if group.name in _TASK_SECTIONS else "")


def _toml(value: Any) -> str:
    """Formats a default value as in a TOML file; "" for None, which TOML does not have."""
    return "" if value is None else json.dumps(value)


def _allowed(field: FieldInfo) -> str:
    """Describes the allowed values of a field: types and limits."""
    kinds = [kind for kind in union_types(field.annotation) if kind is not types.NoneType]
    words = [_word(kind) for kind in kinds]
    of_kinds = (entry for kind in get_args(field.annotation) for entry in getattr(kind, "__metadata__", ()))
    bounds = [bound for entry in (*field.metadata, *of_kinds) for bound in _bounds(entry)]
    return ", ".join([" or ".join(words), *bounds])


def _word(kind: Any) -> str:
    """Describes a type, e.g. "integer" or "list of texts"."""
    if get_origin(kind) is Annotated:
        return _word(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return " or ".join(json.dumps(choice) for choice in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(map(_word, get_args(kind)))
    if get_origin(kind) in (tuple, list):
        item = get_args(kind)[0]
        return f"list of {_word(item)}" + ("" if get_origin(item) is Literal else "s")
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "table"
    return _WORDS[get_origin(kind) or kind]


def _bounds(entry: Any) -> Iterator[str]:
    """Yields a description of a limit, e.g. "at least 0"."""
    names = ((limits.Gt, "gt", "above"), (limits.Ge, "ge", "at least"), (limits.Lt, "lt", "below"))
    for kind, attribute, word in (*names, (limits.Le, "le", "at most"), (limits.MultipleOf, "multiple_of", "times")):
        if isinstance(entry, kind):
            number = getattr(entry, attribute)
            yield f"a multiple of {number}" if word == "times" else f"{word} {number:,}"
    if isinstance(entry, limits.MinLen) and entry.min_length == 1:
        yield "not empty"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _paragraphs(text: str) -> str:
    """Formats a docstring as Markdown. What follows the first paragraph becomes a code block, which keeps its line
    ends."""
    first, _, rest = text.partition("\n\n")
    return first if not rest else f"{first}\n\n```text\n{rest}\n```"


_INTRODUCTION = """\
# Configuration

A config is a TOML file. `pool train FILE --set section.key=value` changes a key; the value is TOML, or text as it
stands, and a list of texts may be written `a,b`. An unknown key, a wrong type or a value that is not allowed ends the
command with exit code 2 and a line that names the key. What a run really used, with
all defaults filled in, is in its folder as `config.json`.

`effect` says what a key does to the weights that a run ends with, and so what `--resume` makes of another value:

| effect | the key | when a run is resumed |
|---|---|---|
| fixed | decides which batches train which model | another value ends the command with exit code 2 |
| same files | names training data | files of another content end the command; their paths may differ |
| saved | is read when a run begins | the checkpoint's value is in force; `--override` changes numbers |
| numerics | changes how numbers are rounded | needs `--allow-different-numerics`, if the run's fingerprint changes |
| result | changes the weights | the new value is in force from there on |
| none | changes speed, memory or output, never the weights | the new value is in force from there on |

An empty default means: not set. The sections `[model]` and `[loss]` belong to the task, `[data.NAME]` to the source
of that name: it is a key only where `data.source` is that source.

This page is what `pool settings --markdown` prints.
"""
