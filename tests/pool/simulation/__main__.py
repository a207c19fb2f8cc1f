"""The command `python -m tests.pool.simulation`. A spawned process can't find what `__main__` defines: it is elsewhere."""

from __future__ import annotations

import sys

from tests.pool.simulation.seeds import main

if __name__ == "__main__":
    sys.exit(main())
