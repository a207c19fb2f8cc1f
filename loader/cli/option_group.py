"""Groups of options that a command takes by one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from loader.formats.file_tools import Options


def with_options(
    command: Callable[..., Any], parameter: str, places: Mapping[str, Options], make: Callable[..., Any]
) -> Callable[..., Any]:
    """Replaces a parameter of a command by options, and passes make(**values) for it. `places`: the options by the
    parameter that they follow in --help; by `parameter` those that stand where it stood."""
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
