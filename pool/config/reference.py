"""Lists every key of a config with its meaning, default and allowed values, read from the config's own classes.

`pool settings` and docs/reference/configuration.md are made from it, so that neither can be wrong. Free of torch.
"""

from __future__ import annotations

import itertools
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

_TYPE_NAMES = {int: "integer", float: "number", str: "text", bool: "true or false", dict: "table", tuple: "list"}
_RECIPE: dict[str, type[BaseModel]] = {"stages": EndConfig, "stage": StageConfig}
_LIMITS = (  # annotation, its attribute with the number, text
    (limits.Gt, "gt", "above"),
    (limits.Ge, "ge", "at least"),
    (limits.Lt, "lt", "below"),
    (limits.Le, "le", "at most"),
)
_TASK_SECTIONS = ("model", "loss")
_COLUMNS = ("key", "default", "allowed", "effect", "meaning")


@dataclass(frozen=True)
class Setting:
    """Describes a key of the config as text."""

    key: str
    default: str  # formatted as TOML
    allowed: str
    effect: str  # on the weights that a run ends with
    meaning: str


@dataclass(frozen=True)
class SectionSettings:
    """Describes a section of the config. `name` is "" for the keys before the first section."""

    name: str
    about: str
    settings: tuple[Setting, ...]


def list_sections(task: str, sources: Sequence[str] = tuple(SOURCES.bundled)) -> list[SectionSettings]:
    """Returns all settings of a run of `task` with data of one of `sources`, in the order of the config's classes.

    Raises ConfigError for an unknown task or source.
    """
    sections: dict[str, SectionSettings] = {}
    for source in sources:
        cls = config_class(task, source)
        sections |= {section.name: section for section in _walk_sections(cls, cls(), "")}
    for name, recipe_cls in _RECIPE.items():
        about = cleandoc(recipe_cls.__doc__ or "")
        sections[name] = SectionSettings(name, about, _settings(recipe_cls, f"{name}."))
    top_level = list(dict.fromkeys(name.partition(".")[0] for name in sections))
    return sorted(sections.values(), key=lambda section: top_level.index(section.name.partition(".")[0]))


def format_markdown(task: str, sources: Sequence[str] = tuple(SOURCES.bundled)) -> str:
    """Returns the text of the page docs/reference/configuration.md."""
    parts = [_INTRODUCTION]
    for section in list_sections(task, sources):
        parts.append(f"## {_title(section, task)}\n")
        if section.about:
            parts.append(f"{_format_paragraphs(section.about)}\n")
        rows = [_format_row(_COLUMNS), "|---" * len(_COLUMNS) + "|"]
        for setting in section.settings:
            default = f"`{setting.default}`" if setting.default else ""
            texts = map(_escape_bars, (setting.allowed, setting.effect, setting.meaning))
            rows.append(_format_row([f"`{setting.key}`", default, *texts]))
        parts.append("\n".join(rows) + "\n")
    return "\n".join(parts)


def _format_row(cells: Sequence[str]) -> str:
    """Returns a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def format_text(task: str, sources: Sequence[str] = tuple(SOURCES.bundled)) -> str:
    """Returns the settings as plain text, with two lines for each key."""
    lines = []
    for section in list_sections(task, sources):
        lines.append(_title(section, task))
        if section.about:
            lines.append(section.about)
        for setting in section.settings:
            default = setting.default or "(not set)"
            lines.append(f"  {setting.key} = {default}    {setting.allowed}    effect: {setting.effect}")
            lines.append(f"      {setting.meaning}")
        lines.append("")
    return "\n".join(lines)


def print_settings(console: Console, task: str, sources: Sequence[str] = tuple(SOURCES.bundled)) -> None:
    """Prints the settings as tables on a terminal."""
    for section in list_sections(task, sources):
        about = Text(section.about) if section.about else None
        table = Table(
            Column(_COLUMNS[0], no_wrap=True),
            *_COLUMNS[1:],
            title=Text(_title(section, task)),
            title_justify="left",
            caption=about,
        )
        for setting in section.settings:
            default = setting.default or "(not set)"
            table.add_row(*map(Text, (setting.key, default, setting.allowed, setting.effect, setting.meaning)))
        console.print(table)


def _walk_sections(cls: type[BaseModel], values: BaseModel, prefix: str) -> Iterator[SectionSettings]:
    """Yields the section `cls` and then the sections nested in it. `values`: an instance with the defaults."""
    sections = {name: value for name, value in values if isinstance(value, BaseModel)}
    settings = _settings(cls, prefix, tuple(sections))
    if settings:
        about = (cls.__dict__.get("__doc__") or "") if prefix else ""
        yield SectionSettings(prefix.removesuffix("."), cleandoc(about), settings)
    for name, value in sections.items():
        yield from _walk_sections(type(value), value, f"{prefix}{name}.")


def _settings(cls: type[BaseModel], prefix: str, excluded: Sequence[str] = ()) -> tuple[Setting, ...]:
    """Returns the settings of a section, except those named in `excluded`."""
    return tuple(
        Setting(
            f"{prefix}{name}",
            "" if field.is_required() else _format_default(field.get_default(call_default_factory=True)),
            _describe_allowed(field),
            Effect.of(field).value,
            field.description or "",
        )
        for name, field in cls.model_fields.items()
        if name not in excluded
    )


def _title(section: SectionSettings, task: str) -> str:
    """Returns the heading of a section."""
    if not section.name:
        return "Before the first section"
    if section.name == "stage":
        return "[[stage]]"
    if section.name in _TASK_SECTIONS:
        return f"[{section.name}] of task {task}"
    return f"[{section.name}]"


def _format_default(value: Any) -> str:
    """Formats a default value as in a TOML file; "" for None, which TOML does not have."""
    if value is None:
        return ""
    return json.dumps(value)


def _describe_allowed(field: FieldInfo) -> str:
    """Describes the allowed values of a field: types and limits."""
    kinds = [kind for kind in union_types(field.annotation) if kind is not types.NoneType]
    types_text = " or ".join(_describe_type(kind) for kind in kinds)
    metadata = list(field.metadata)
    for kind in get_args(field.annotation):
        metadata += getattr(kind, "__metadata__", ())
    limits_texts = itertools.chain.from_iterable(map(_describe_limits, metadata))
    return ", ".join([types_text, *limits_texts])


def _describe_type(kind: Any) -> str:
    """Describes a type, e.g. "integer" or "list of texts"."""
    if get_origin(kind) is Annotated:
        return _describe_type(get_args(kind)[0])
    if get_origin(kind) is Literal:
        return " or ".join(json.dumps(choice) for choice in get_args(kind))
    if get_origin(kind) in (Union, types.UnionType):
        return " or ".join(map(_describe_type, get_args(kind)))
    if get_origin(kind) in (tuple, list):
        item = get_args(kind)[0]
        plural = "" if get_origin(item) is Literal else "s"
        return f"list of {_describe_type(item)}{plural}"
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return "table"
    return _TYPE_NAMES[get_origin(kind) or kind]


def _describe_limits(entry: Any) -> Iterator[str]:
    """Yields a description of each limit in an annotation, e.g. "at least 0"."""
    for kind, attribute, text in _LIMITS:
        if isinstance(entry, kind):
            yield f"{text} {getattr(entry, attribute):,}"
    if isinstance(entry, limits.MultipleOf):
        yield f"a multiple of {entry.multiple_of}"
    if isinstance(entry, limits.MinLen) and entry.min_length == 1:
        yield "not empty"


def _escape_bars(text: str) -> str:
    return text.replace("|", "\\|")


def _format_paragraphs(text: str) -> str:
    """Formats a docstring as Markdown. What follows the first paragraph becomes a code block, which keeps its line
    ends."""
    first, _, example = text.partition("\n\n")
    if not example:
        return first
    return f"{first}\n\n```text\n{example}\n```"


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
