"""``python -m kvtop``: the same as the ``kvtop`` command, for where another package installed one of that name."""

import sys

from kvtop.cli import main

sys.exit(main())
