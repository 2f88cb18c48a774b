"""`python -m tcexplore`."""

from __future__ import annotations

import sys

from tcexplore.cli import main

sys.exit(main())
