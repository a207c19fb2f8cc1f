"""Groups of options that a command takes by one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, get_type_hints


def with_options(
    command: Callable[..., Any], parameter: str, options: Mapping[str, tuple[Any, Any]], make: Callable[..., Any]
) -> Callable[..., Any]:
    """Replaces a parameter of a command by options, and passes make(**values) for it. `options`: by the names of their
    own parameters, the annotation that typer reads and the default."""
    hints = get_type_hints(command, include_extras=True)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters: list[inspect.Parameter] = []
    for name, each in inspect.signature(command).parameters.items():
        if name == parameter:
            parameters += [
                inspect.Parameter(option, keyword, default=default, annotation=annotation)
                for option, (annotation, default) in options.items()
            ]
        else:
            parameters.append(each.replace(kind=keyword, annotation=hints.get(name, each.annotation)))

    @functools.wraps(command)
    def run(**given: Any) -> Any:
        made = make(**{name: given.pop(name) for name in options})
        return command(**{parameter: made}, **given)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run
