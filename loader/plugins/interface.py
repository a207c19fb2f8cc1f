"""Checks that an object of a user's code has the interface that it must have, before any method is called."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Iterator, Sequence
from typing import Any

from loader.plugins.error_text import definition_location, format_error_with_location


def find_interface_problem(made: object, protocol: type, noun: str) -> str:
    """Returns what is wrong with the first attribute or method of `protocol` that `made` lacks or that can't be called
    with its arguments. Returns an empty text if all are there.

    `noun` is what the message calls such an object, as "a task".
    """
    name = type(made).__name__
    if isinstance(made, type):
        return f"the class {made.__name__} is given, not an object of it"
    for attribute in protocol.__annotations__:
        if (problem := _get(made, attribute)[1]) is not None:
            return f"{name}.{attribute} {problem or f'is missing: {noun} must have it'}"
    for method, wanted in list_methods(protocol):
        function, problem = _get(made, method)
        if problem is None:
            problem = find_call_problem(function, wanted)
        elif not problem:
            problem = f"is missing: {noun} must have {method}({', '.join(wanted)})"
        if problem:
            return f"{name}.{method} {problem}"
    return ""


def list_methods(protocol: type) -> Iterator[tuple[str, list[str]]]:
    """Yields each public method of a protocol: its name, and the names of its positional arguments."""
    for name, function in vars(protocol).items():
        if inspect.isfunction(function) and not name.startswith("_"):
            parameters = list(inspect.signature(function).parameters.values())[1:]
            yield name, [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]


def _get(made: object, name: str) -> tuple[Any, str | None]:
    """Gets an attribute of a user's object. Returns (the attribute, None), or (None, what is wrong with it), which is
    an empty text if the attribute is missing."""
    try:
        return getattr(made, name), None
    except AttributeError:
        return None, ""
    except Exception as error:
        return None, f"can't be had: {format_error_with_location(error)}"


def find_call_problem(function: object, wanted: Sequence[str]) -> str:
    """Returns why `function` can't be called with these positional arguments and return a result, or an empty text if
    it can."""
    call = f"({', '.join(wanted)})"
    if not callable(function):
        return f"must be a function of {call}, not {reprlib.repr(function)}"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "must not be async: nobody awaits it"
    if inspect.isgeneratorfunction(function):
        return "must not be a generator (it has a yield): its body would never run"
    try:
        inspect.signature(function).bind(*wanted)
    except TypeError as error:
        return f"can't be called with {call}: {error} ({definition_location(function)})"
    except ValueError:
        return ""  # a function in C, whose arguments are not known
    return ""
