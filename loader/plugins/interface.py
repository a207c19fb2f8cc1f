"""Checks that an object of a user's code has the interface that it must have, before any method is called."""

from __future__ import annotations

import inspect
import reprlib
from collections.abc import Iterator, Sequence
from typing import Any

from loader.plugins.error_text import definition_location, format_error_with_location


def find_interface_problem(candidate: object, protocol: type, kind: str) -> str:
    """Returns what is wrong with the first attribute or method of `protocol` that `candidate` lacks or that can't be
    called with its arguments. Returns an empty text if all are there.

    `kind` is what the message calls such an object, as "a task".
    """
    if isinstance(candidate, type):
        return f"the class {candidate.__name__} is given, not an object of it"
    class_name = type(candidate).__name__
    for attribute in protocol.__annotations__:
        _, problem = _read_attribute(candidate, attribute, if_missing=f"is missing: {kind} must have it")
        if problem:
            return f"{class_name}.{attribute} {problem}"
    for method, arguments in list_methods(protocol):
        call = f"{method}({', '.join(arguments)})"
        function, problem = _read_attribute(candidate, method, if_missing=f"is missing: {kind} must have {call}")
        if not problem:
            problem = find_call_problem(function, arguments)
        if problem:
            return f"{class_name}.{method} {problem}"
    return ""


def list_methods(protocol: type) -> Iterator[tuple[str, list[str]]]:
    """Yields each public method of a protocol: its name, and the names of its positional arguments."""
    for name, function in vars(protocol).items():
        if not inspect.isfunction(function) or name.startswith("_"):
            continue
        _self, *parameters = inspect.signature(function).parameters.values()
        yield name, [parameter.name for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY]


def _read_attribute(candidate: object, name: str, if_missing: str) -> tuple[Any, str]:
    """Reads an attribute of a user's object. Returns the attribute and an empty text, or None and what is wrong with
    it: `if_missing` if there is no such attribute."""
    try:
        return getattr(candidate, name), ""
    except AttributeError:
        return None, if_missing
    except Exception as error:
        return None, f"can't be had: {format_error_with_location(error)}"


def find_call_problem(function: object, arguments: Sequence[str]) -> str:
    """Returns why `function` can't be called with these positional arguments and return a result, or an empty text if
    it can."""
    call = f"({', '.join(arguments)})"
    if not callable(function):
        return f"must be a function of {call}, not {reprlib.repr(function)}"
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        return "must not be async: nobody awaits it"
    if inspect.isgeneratorfunction(function):
        return "must not be a generator (it has a yield): its body would never run"
    try:
        inspect.signature(function).bind(*arguments)
    except TypeError as error:
        return f"can't be called with {call}: {error} ({definition_location(function)})"
    except ValueError:
        return ""  # a function in C, whose arguments are not known
    return ""
