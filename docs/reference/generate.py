"""Writes the reference pages that follow from the code: `python docs/reference/generate.py`.

Each page is a function that returns its text; tests/project/test_docs.py compares the committed pages with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import Any

import typer

import loader
import pool
import sparsepool
from loader import _native
from loader.chess.filters import MOVE, PARTS, PLY
from loader.cli.main import PROGRAM as LOADER
from loader.formats.registry import formats_of_family, load_format
from loader.stream.data import Data
from loader.stream.schema import BatchSchema, Region
from loader.stream.sources import data_config
from pool.commands.main import PROGRAM as POOL
from pool.config.reference import format_markdown

FOLDER = Path(__file__).resolve().parent
NOTE = "This page is written by `docs/reference/generate.py`.\n"


def configuration() -> str:
    """Every key of a config, then the filters of positions."""
    return f"{format_markdown('stockfish')}\n{filters()}"


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
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    plain = parameter.default is None or isinstance(parameter.default, (bool, tuple, list)) or parameter.default == ""
    return "" if plain else f"`{parameter.default}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def filters() -> str:
    """What the sections [data.chess.filters] share, which formats lack what a filter needs, and expressions."""
    parts = [f"{_FILTERS.strip()}\n"]
    rows = ["| key | not for files in |", "|---|---|"]
    rows += [f"| `{name}` | {_without(part)} |" for name, part in _NEEDS.items()]
    parts += ["\n".join(rows) + "\n", f"{_EXPRESSIONS.strip()}\n"]
    rows = ["| name | is | meaning | not for files in |", "|---|---|---|---|"]
    for name, is_condition, part, meaning in _native.where_names():
        kind = "condition" if is_condition else "number"
        rows.append(f"| `{name}` | {kind} | {_cell(meaning)} | {_without(part)} |")
    parts += ["\n".join(rows) + "\n", f"{_VIRIFORMAT.strip()}\n", f"{_NNUE_PYTORCH.strip()}\n"]
    return "\n".join(parts)


def _without(part: str) -> str:
    """The formats that lack it."""
    assert part in ("", *PARTS)
    return ", ".join(name for name in formats_of_family("chess") if part in getattr(load_format(name), "LACKS", ()))


def batch_layout() -> str:
    """What a batch holds and where, for each feature set."""
    parts = ["# Layout of a batch\n", f"{_LAYOUT.strip()}\n", NOTE, _feature_sets()]
    for features in ("HalfKAv2_hm",):
        config = data_config(chess={"features": features})
        parts += [f"## A slot of {features}, {config.batch_size:,} samples\n", _regions(Data(config).schema())]
    return "\n".join(parts)


def _feature_sets() -> str:
    rows = [
        "## Feature sets\n",
        "| `data.chess.features` | inputs | most active in a bag | bytes of a slot |",
        "|---|---|---|---|",
    ]
    for name in _native.feature_sets():
        buckets = _KING_BUCKETS if name in ("chess704^", "chess768^") else ()  # they need some
        schema = Data(data_config(chess={"features": name, "king_buckets": buckets})).schema()
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

_NEEDS = {
    "skip_zero_placeholders": PLY,
    "skip_captures": MOVE,
    "skip_promotions": MOVE,
    "skip_ply_up_to": PLY,
    "win_draw_loss": PLY,
    "keep_by_ply": PLY,
    "viriformat.min_ply": PLY,
    "viriformat.filter_tactical": MOVE,
    "viriformat.filter_castling": MOVE,
}

_FILTERS = """
## Filters of positions

Keys of `[data.chess.filters]`, which leave positions out of training, and options of `loader filter` and `loader
inspect` with the same names (`--max-score 3000`). A position must pass all that are set. What is drawn depends on
seed, epoch and the position's place in the files alone ([the stream](../explanation/stream.md#filters)). A filter
that needs what a file's format does not have is refused at the start, and so is a position whose move number is 0
where a filter needs the ply. Scores are taken in the file's unit, as the side to move sees them.
"""

_EXPRESSIONS = """
### Expressions

`where = "ply >= 16 and abs(score) < 3000 and not in_check"` keeps positions of which that holds. From what binds
least to what binds most: `or`; `and`; `not`; `< <= > >= == !=`, also in a row, as in `16 <= ply < 100`; `+ -`; `* /`;
a sign. There are numbers (`3`, `0.5`, `3e3`), squares (`a1` is 0, `h1` 7, `h8` 63), brackets, and the functions
`abs(x)`, `min(x, y)`, `max(x, y)`, `file(square)` and `rank(square)`, 1 to 8. Numbers are 64-bit floats; a division
by zero is infinite or, of 0 by 0, no number, of which only `!=` holds. A condition is no number, and a number is no
condition. The expression is compiled once, when the stream is opened.
"""

_VIRIFORMAT = """
### viriformat

`viriformat = "filter.toml"`, or `--viriformat filter.toml`, takes a TOML file of viriformat 3's `Filter` as it is;
what the file does not say is as viriformat has it: `min_ply = 16`, `min_pieces = 4`, `max_eval = 31339`,
`filter_tactical`, `filter_check`. The file is read once, and what a run has taken is in its `config.json`. The keys
may also be given in `[data.chess.filters.viriformat]`, where what is not set is off. Chances of several rules are
multiplied, and drawn once.
"""

_NNUE_PYTORCH = """
### As in nnue-pytorch

| there | here |
|---|---|
| `random_fen_skipping = r` | `random_skip = r` |
| `early_fen_skipping = n` | `skip_ply_up_to = n` |
| `filtered` | `skip_in_check`, `skip_captures` |
| `wld_filtered` | `win_draw_loss` |
| `pc_y0` to `pc_y4` | `piece_count_curve = [pc_y0, pc_y1, pc_y2, pc_y3, pc_y4]` and `piece_count_least = 0.025` |
| `soft_early_fen_skipping = n`, `ply_x1` to `ply_y4` | `keep_by_ply = [ply_x1, ply_y1, ..., ply_x4, ply_y4, n, 1]` |
| entries without a score (32002) | `skip_no_score`, on by default |
| scores of 0 as placeholders | `skip_zero_placeholders` |

There the pieces are counted as a thread reads on, here in each chunk. Where the wanted shares need less thinning than
to `piece_count_least`, the same shares are reached here with more positions kept. At the first entries of a chunk no
score before them is known.
"""

_KING_BUCKETS = (0, 1, 2, 3, 4, 4, 5, 5, *(6,) * 4, *(7,) * 4, *(8,) * 8, *(9,) * 8)

_API = """
Signatures of [the names that may be imported](python-names.md), read from the code when the site is built. `Source`,
`Stream`, `Task`, `Metric` and the like are interfaces: what an object of yours has to have.
"""


def api() -> str:
    """Directives of mkdocstrings, which fills them in when the site is built."""
    parts = ["# The Python interface", NOTE.strip(), _API.strip()]
    for package in (loader, pool, sparsepool):
        parts.append(f"## {package.__name__}")
        parts += [f"::: {package.__name__}.{name}" for name in package.__all__]
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "api.md": api,
    "configuration.md": configuration,
    "commands.md": commands,
    "batch-layout.md": batch_layout,
}


def main() -> None:
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
