"""The command `python -m tests.pool.simulation`; a spawned process finds nothing that `__main__` defines."""

from __future__ import annotations

import sys

from tests.pool.simulation.seeds import main

if __name__ == "__main__":
    sys.exit(main())
