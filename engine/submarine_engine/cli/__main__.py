"""``python -m submarine_engine.cli``: the ``submarine`` command where it is not on the PATH."""

import sys

from submarine_engine.cli import main

sys.exit(main())
