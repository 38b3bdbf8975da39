"""`python -m ludus`."""

from __future__ import annotations

import sys

from ludus.cli.app import main

sys.exit(main())
