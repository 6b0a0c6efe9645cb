"""`python -m plimsoll`: the command where its script is not on the PATH."""

import sys

from plimsoll.cli.main import main

sys.exit(main())
