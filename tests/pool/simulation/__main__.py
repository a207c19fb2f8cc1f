"""`python -m tests.pool.simulation`. The functions are elsewhere: a spawned process can't find what `__main__` defines."""

from __future__ import annotations

import sys

from tests.pool.simulation.seeds import main

if __name__ == "__main__":
    sys.exit(main())
