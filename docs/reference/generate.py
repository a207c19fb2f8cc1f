"""Writes the reference pages that follow from the code: `python docs/reference/generate.py`.

Each page is a function that returns its text; tests/test_docs.py compares the committed pages with it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer

from loader import _native
from loader.batch.schema import BatchSchema, Region
from loader.cli import PROGRAM as LOADER
from loader.sources import data_config, schema_of
from pool.cli import PROGRAM as POOL
from pool.config.page import markdown
from pool.protocol import messages

FOLDER = Path(__file__).resolve().parent
NOTE = "This page is written by `docs/reference/generate.py`.\n"
SECTION = re.compile(r"^# --- (.*) ---$")


def configuration() -> str:
    return markdown("stockfish")


def commands() -> str:
    """Every command of both programs, its arguments and options."""
    parts = ["# Commands\n", "What `--help` says, for both programs.\n", NOTE]
    for program in (POOL, LOADER):
        name, group = program.name, typer.main.get_command(program.app())
        parts += [f"## {name}\n", f"{cleandoc(group.help or '')}\n"]
        for command in group.commands.values():  # type: ignore[attr-defined]
            parts += [f"### {name} {command.name}\n", f"{_paragraphs(command.help)}\n", _parameters(command.params)]
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    """A docstring as Markdown: its asterisks and brackets mean themselves."""
    return re.sub(r"([*<>])", r"\\\1", cleandoc(text))


def _parameters(parameters: list[Any]) -> str:
    rows = ["| argument or option | default | meaning |", "|---|---|---|"]
    for parameter in parameters:
        if "--install-completion" in parameter.opts or "--show-completion" in parameter.opts:
            continue
        names = ", ".join(parameter.opts) if parameter.param_type_name == "option" else ""
        shown = " ".join(filter(None, (names, "" if _is_flag(parameter) else _metavar(parameter))))
        rows.append(f"| `{shown}` | {_default(parameter)} | {_cell(parameter.help or '')} |")
    return "\n".join(rows) + "\n"


def _is_flag(parameter: Any) -> bool:
    return bool(getattr(parameter, "is_flag", False))


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or (parameter.name or "").upper()).strip("{}")


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    plain = parameter.default is None or isinstance(parameter.default, (bool, tuple, list)) or parameter.default == ""
    return "" if plain else f"`{parameter.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def message_table() -> str:
    """The messages between processes, from the source of the module that defines them."""
    source = Path(messages.__file__).read_text(encoding="utf-8")
    parts = ["# Messages between processes\n", f"{_MESSAGES.strip()}\n", NOTE]
    section = ""
    for title, node in _message_classes(source):
        if title != section:
            section = title
            parts.append(f"## {section[:1].upper()}{section[1:]}\n".replace("->", "to"))
        about = ast.get_docstring(node)
        parts += [f"### {node.name}\n", *([f"{' '.join(about.split())}\n"] if about else []), _fields(node, source)]
    return "\n".join(parts)


def _message_classes(source: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Each class with the section comment above it."""
    titles = {number: found[1] for number, line in enumerate(source.splitlines(), 1) if (found := SECTION.match(line))}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef):
            yield titles[max(number for number in titles if number < node.lineno)], node


def _fields(node: ast.ClassDef, source: str) -> str:
    lines = source.splitlines()
    rows = ["| field | type | meaning |", "|---|---|---|"]
    for field in node.body:
        if isinstance(field, ast.AnnAssign):
            comment = lines[field.lineno - 1].partition("#")[2].strip()
            kind = ast.unparse(field.annotation).replace("|", "\\|")
            rows.append(f"| `{ast.unparse(field.target)}` | `{kind}` | {_cell(comment)} |")
    return "\n".join(rows) + "\n"


def batch_layout() -> str:
    """What a batch holds and where, for each feature set."""
    parts = ["# Layout of a batch\n", f"{_LAYOUT.strip()}\n", NOTE, _feature_sets()]
    for features in ("HalfKAv2_hm",):
        config = data_config(chess={"features": features})
        parts += [f"## A slot of {features}, {config.batch_size:,} samples\n", _regions(schema_of(config))]
    return "\n".join(parts)


def _feature_sets() -> str:
    rows = [
        "## Feature sets\n",
        "| `data.chess.features` | inputs | most active in a bag | bytes of a slot |",
        "|---|---|---|---|",
    ]
    for name in _native.feature_sets():
        buckets = _KING_BUCKETS if name == "chess768^" else ()  # it needs some
        schema = schema_of(data_config(chess={"features": name, "king_buckets": buckets}))
        (field,) = schema.sparse
        said = f", {max(buckets) + 1} king buckets" if buckets else ""
        rows.append(f"| `{name}`{said} | {field.num_features:,} | {field.max_active} | {schema.slot_bytes:,} |")
    return "\n".join(rows) + "\n"


def _regions(schema: BatchSchema) -> str:
    rows = ["| offset | region | type | count |", "|---|---|---|---|"]
    for name, region in schema.regions.items():
        rows.append(_region(name, region))
    return "\n".join(rows) + f"\n\nTogether {schema.slot_bytes:,} bytes.\n"


def _region(name: str, region: Region) -> str:
    return f"| {region.offset:,} | `{name}` | {region.dtype.name} | {region.count:,} |"


_MESSAGES = """
Processes of a run exchange short messages over local sockets. No message carries bulk data: it says who may use which
part of shared memory. Why they look like this: [decision 001](../explanation/decisions/001-whole-state-messages.md).
"""

_LAYOUT = """
A batch is one slot of shared memory. Each region begins at a multiple of 64 bytes, and a slot is whole pages. The sizes
are those of the fullest batch there can be; the bytes behind what a batch uses are not written.

- `header`: number of the batch; for each sparse field the number of active features and of touched ones.
- `bucket_offsets`: the samples of output bucket b are `bucket_offsets[b]` to `bucket_offsets[b + 1]`.
- `score`, `result`, `ply`, `piece_count`, `side_to_move`: [one number a sample](formats.md#what-a-sample-holds).
- `features.offsets`, `features.features`: by rows. Bag i has `features[offsets[i] : offsets[i + 1]]`.
- `features.touched`, `features.touched_offsets`, `features.bags`: by columns. Feature `touched[j]` is active in
  the bags `bags[touched_offsets[j] : touched_offsets[j + 1]]`.
- A field with values has `NAME.values` behind `NAME.features` and `NAME.column_values` behind `NAME.bags`: a float32
  for each active feature, in the order of rows and of columns. A field without has neither, as here.

With B samples, bags 0 to B - 1 are the side to move's view and bags B to 2B - 1 the opponent's.
"""

_KING_BUCKETS = (0, 1, 2, 3, 4, 4, 5, 5, *(6,) * 4, *(7,) * 4, *(8,) * 8, *(9,) * 8)

PAGES: dict[str, Callable[[], str]] = {
    "configuration.md": configuration,
    "commands.md": commands,
    "messages.md": message_table,
    "batch-layout.md": batch_layout,
}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
