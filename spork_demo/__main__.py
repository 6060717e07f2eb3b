"""`python -m spork_demo`: the same engine for scripts and checks."""

import sys

from spork_demo.cli import main

sys.exit(main())
