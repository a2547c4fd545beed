"""``python -m lab.embedded.reservoir``: what ``make play`` starts."""

import sys

from lab.embedded.reservoir.play import main

sys.exit(main())
