"""Groups of options that a command takes as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from loader.formats.file_tools import Options


def with_options(
    command: Callable[..., Any],
    group_parameter: str,
    options_after: Mapping[str, Options],
    make_group: Callable[..., Any],
) -> Callable[..., Any]:
    """Returns the command with its parameter `group_parameter` replaced by a group of options. When the command runs,
    the parameter gets make_group(**values of the options).

    `options_after`: options by the name of the parameter that they follow in --help; under `group_parameter` those that
    take its place.
    """
    hints = get_type_hints(command, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name != group_parameter:
            annotation = hints.get(name, parameter.annotation)
            parameters.append(parameter.replace(kind=keyword, annotation=annotation))
        for option, (annotation, default) in options_after.get(name, {}).items():
            parameters.append(inspect.Parameter(option, keyword, default=default, annotation=annotation))
    option_names = [option for group in options_after.values() for option in group]

    @functools.wraps(command)
    def run(**arguments: Any) -> Any:
        group = make_group(**{name: arguments.pop(name) for name in option_names})
        return command(**{group_parameter: group}, **arguments)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
