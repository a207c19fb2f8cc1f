"""The command `pool watch`, which shows runs on a page in the browser, while they are running or afterwards."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from pool.commands.arguments import Force, refuse_existing
from pool.errors import ConfigError

# late imports: every command starts without what it does not use


def register(app: typer.Typer) -> None:
    app.command(name="watch")(watch)


def watch(
    folders: Annotated[list[Path], typer.Argument(metavar="RUN", help="folders of runs, or folders that hold some")],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="write the page as it is now, one file to send; -: print it"
        ),
    ] = None,
    host: Annotated[str, typer.Option("--host", help="address to answer at; one of this machine alone by default")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", min=0, max=65535, metavar="N", help="0: one that is free")] = 7373,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host",
            metavar="NAME",
            help="host name under which a proxy shows the page; may be given several times",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(
            "--token-file",
            metavar="FILE",
            help="file with the token, which nobody else may read; made if it is not there. Else the token is new at "
            "each start",
        ),
    ] = None,
    force: Force = False,
) -> None:
    """Show runs in the browser: curves side by side, what bounds them, restarts with their reasons, checkpoints.

    Prints the page's address and answers until Ctrl-C. The page follows runs that go on. Reads their folders alone and
    writes nothing there: a run does not notice. The address has a token, without which nothing is shown.
    """
    from loader.files.endings import check_output_ending
    from loader.files.pipes import is_stream
    from loader.files.whole_file import write_atomically
    from pool.watch.contents import Watch
    from pool.watch.page import page_of

    watched = Watch(folders)
    watched.check()
    if output is None:
        from pool.watch.server import PageServer
        from pool.watch.token import check_name, read_token

        names = [check_name(name) for name in allow_host or ()]
        token = None if token_file is None else read_token(token_file)
        with suppress(KeyboardInterrupt):  # no work is left unfinished
            server = PageServer(watched, host, port, allowed_names=names, token=token)
            sys.stdout.write(f"{server.url}\n")
            sys.stdout.flush()
            server.serve()
    elif is_stream(output):
        sys.stdout.write(page_of(watched.look()))
    else:
        check_output_ending(output, "pages", [".html", ".htm"])
        refuse_existing([output], force)
        try:
            write_atomically(output, page_of(watched.look()).encode())
        except OSError as error:
            raise ConfigError(f"{output}: {error.strerror}") from None
