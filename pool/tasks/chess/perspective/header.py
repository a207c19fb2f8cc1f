"""Writes C or Rust source that describes an exported file, for an engine to include: shapes, types, scales, king
buckets."""

from __future__ import annotations

import numpy as np

from loader.chess.output_buckets import format_output_buckets
from pool.tasks.chess.perspective.config import ExportTensor
from pool.tasks.chess.perspective.inference import PAIR_SHIFT, is_integer_only
from pool.tasks.chess.perspective.network_file import ALIGNMENT, content_size, file_size
from pool.tasks.chess.perspective.quantization import TYPES, Net

_C_TYPES = {"i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "f32": "float"}


def generate_header(net: Net, language: str, file_name: str) -> str:
    """Returns the source that describes the file `file_name` of a network. `language` is "c" or "rust"."""
    return _generate_c(net, file_name) if language == "c" else _generate_rust(net, file_name)


def _generate_c(net: Net, file_name: str) -> str:
    """Returns the description of the file as a C header, with a struct of its layout."""
    lines = [f"// {line}" for line in _comment_lines(net, file_name)]
    lines += ["#pragma once", "#include <stdint.h>", ""]
    lines += [f"#define NET_{name} {number}" for name, number in _constants(net).items()]
    layout = net.shape.inputs.king_buckets
    if layout:
        numbers = ", ".join(map(str, layout))
        lines += [f"static const uint8_t NET_KING_BUCKETS[{len(layout)}] = {{{numbers}}};"]
    lines += ["", "struct net {"]
    for entry in net.entries:
        sizes = "".join(f"[{size}]" for size in _dimensions(entry, net))
        lines.append(f"    {_C_TYPES[entry.type]} {_field_name(entry)}{sizes};  // {_describe_scale(entry)}")
    lines += ["};" if _is_aligned(net) else "} __attribute__((packed));", ""]
    lines += [f'_Static_assert(sizeof(struct net) == {content_size(net.shape, net.entries)}, "no padding");', ""]
    return "\n".join(lines)


def _generate_rust(net: Net, file_name: str) -> str:
    """Returns the description of the file as Rust source, with a struct of its layout."""
    lines = [f"// {line}" for line in _comment_lines(net, file_name)]
    for name, number in _constants(net).items():
        if "." in number:
            kind = "f32"
        elif name in ("QA", "QB", "UNIT"):
            kind = "i32"
        else:
            kind = "usize"
        lines.append(f"pub const {name}: {kind} = {number};")
    layout = net.shape.inputs.king_buckets
    if layout:
        lines.append(f"pub const KING_BUCKETS: [u8; {len(layout)}] = [{', '.join(map(str, layout))}];")
    lines += ["", "#[repr(C)]" if _is_aligned(net) else "#[repr(C, packed)]", "pub struct Net {"]
    for entry in net.entries:
        array: str = entry.type
        for size in reversed(_dimensions(entry, net)):
            array = f"[{array}; {size}]"
        lines.append(f"    pub {_field_name(entry)}: {array}, // {_describe_scale(entry)}")
    lines += [
        "}",
        "",
        f"const _: () = assert!(std::mem::size_of::<Net>() == {content_size(net.shape, net.entries)});",
        "",
    ]
    return "\n".join(lines)


def _comment_lines(net: Net, file_name: str) -> list[str]:
    """Returns the comment lines at the top of the source."""
    shape = net.shape
    arithmetic = (
        "integers all through" if is_integer_only(shape) else f"float from the sums of l1 on, products >> {PAIR_SHIFT}"
    )
    padding = f"The file is filled up to a multiple of {ALIGNMENT} bytes."
    buckets = format_output_buckets(shape.output_buckets)
    return [
        f"{file_name}: {shape.describe()}, {shape.activation}; {arithmetic}.",
        f"Inputs {shape.inputs.features}, output buckets {buckets}. Little endian. {padding}",
    ]


def _constants(net: Net) -> dict[str, str]:
    """Returns the names and values of the network's sizes and scales."""
    shape = net.shape
    return {
        "INPUTS": str(shape.num_real),
        "WIDTH": str(shape.width),
        "OUTPUT_BUCKETS": str(shape.buckets),
        "QA": _format_number(net.entry("l0w").scale),
        "QB": _format_number(net.entry("l1w").scale),
        "UNIT": _format_number(net.unit),
        "FILE_BYTES": str(file_size(net.shape, net.entries)),
    }


def _format_number(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _dimensions(entry: ExportTensor, net: Net) -> tuple[int, ...]:
    """Returns the dimensions of the tensor's array in the file's order. Dimensions of size 1 are left out."""
    shape = net.shape.sizes(entry.weight)
    if entry.weight.startswith("l0"):
        sizes = shape[::-1] if entry.transpose else shape
    elif entry.chunk is not None:
        sizes = (shape[0], shape[2] // entry.chunk, shape[1], entry.chunk)
    elif len(shape) == 3:
        sizes = shape if entry.transpose else (shape[2], shape[0] * shape[1])
    else:
        sizes = shape
    dimensions = tuple(size for size in sizes if size != 1)
    return dimensions or (1,)


def _field_name(entry: ExportTensor) -> str:
    """Returns the name of the tensor's field in the struct, such as l0w_threats for l0w[threats]."""
    return entry.weight.rstrip("]").replace("[", "_")


def _describe_scale(entry: ExportTensor) -> str:
    merged = f", {entry.merge} added" if entry.merge else ""
    if entry.type == "f32" and entry.scale == 1:
        return f"floats{merged}"
    return f"times {entry.scale:g}{merged}"


def _is_aligned(net: Net) -> bool:
    """Returns whether a compiler would put no padding between the tensors, nor after the last."""
    offset, max_item_nbytes = 0, 1
    for entry in net.entries:
        item_nbytes = np.dtype(TYPES[entry.type]).itemsize
        if offset % item_nbytes:
            return False
        offset += content_size(net.shape, [entry])
        max_item_nbytes = max(max_item_nbytes, item_nbytes)
    return offset % max_item_nbytes == 0
