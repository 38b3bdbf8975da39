"""`python -m ludus`."""

from __future__ import annotations

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # `python -m` puts the working directory there

from ludus.cli.app import main

sys.exit(main())
