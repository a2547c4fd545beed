"""Reservoir itself on an embedded AWS: synthesised and deployed as for an account, with the network that nodes need.

The demo, ``make play`` and the tests of the deployed stack start here. Nothing in the product knows that it runs on an
emulator: the template is ``app.py``'s, the assets are the built ones, and what is called is AWS's public API.
"""

from lab.embedded.reservoir.assembly import KEPT, LEAVE_ASSETS, ROOT, Settings, Synthesis
from lab.embedded.reservoir.network import (
    IMAGE_PARAMETER,
    NETWORK_TAG,
    NODE_ROLE,
    make_network,
)
from lab.embedded.reservoir.stack import DeployedReservoir, Report

__all__ = [
    "IMAGE_PARAMETER",
    "KEPT",
    "LEAVE_ASSETS",
    "NETWORK_TAG",
    "NODE_ROLE",
    "ROOT",
    "DeployedReservoir",
    "Report",
    "Settings",
    "Synthesis",
    "make_network",
]
