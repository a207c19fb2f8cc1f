"""`python -m loader` is the `loader` command."""

import sys

from loader.users_code import forget_current_folder

forget_current_folder()

from loader.cli import main  # noqa: E402

sys.exit(main())
