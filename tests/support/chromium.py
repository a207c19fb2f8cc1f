"""A browser without a window, which shows what scripts make of a page."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.tools import need_program

_OPTIONS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--enable-logging=stderr")


def page_in_browser(address: str, profile: Path, *, milliseconds: int = 5000) -> str:
    """Returns the page as it is when its scripts have had so many milliseconds of the browser's own clock. Fails if one
    of them has raised an error, or something was refused. Skips where there is no Chromium."""
    browser = need_program("chromium", "chromium")
    done = subprocess.run(
        [
            browser,
            *_OPTIONS,
            f"--user-data-dir={profile}",
            f"--virtual-time-budget={milliseconds}",
            "--dump-dom",
            address,
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert [line for line in done.stderr.splitlines() if "CONSOLE" in line] == []
    return done.stdout
