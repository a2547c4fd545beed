"""``python -m embedded.reservoir``: what ``make play`` starts."""

import sys

from embedded.reservoir.play import main

sys.exit(main())
