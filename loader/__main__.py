"""`python -m loader` is the `loader` command."""

import sys

from loader.cli import main

sys.exit(main())
