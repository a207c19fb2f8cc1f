"""Groups of options that a command takes as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from loader.formats.file_tools import Options


def with_options(
    command: Callable[..., Any], parameter: str, places: Mapping[str, Options], make: Callable[..., Any]
) -> Callable[..., Any]:
    """Returns the command with `parameter` replaced by a group of options. When the command runs, make(**values of the
    options) is passed for `parameter`.

    `places`: options by the name of the parameter that they follow in --help; under `parameter` those that take its
    place.
    """
    hints = get_type_hints(command, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for name, each in inspect.signature(command).parameters.items():
        if name != parameter:
            parameters.append(each.replace(kind=keyword, annotation=hints.get(name, each.annotation)))
        parameters += [
            inspect.Parameter(option, keyword, default=default, annotation=annotation)
            for option, (annotation, default) in places.get(name, {}).items()
        ]
    options = [option for group in places.values() for option in group]

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        made = make(**{name: given.pop(name) for name in options})
        return command(**{parameter: made}, **given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
