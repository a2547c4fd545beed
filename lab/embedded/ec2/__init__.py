"""EC2 with capacity reservations, capacity blocks, instant fleets, Spot, prices and events, in one process.

moto answers what is around capacity (networks, images, volumes); this package answers everything that decides where an
instance goes and how long it stays. The behaviours and where they deviate from AWS are listed in
``docs/ec2-emulation.md``.
"""

from lab.embedded.ec2.api.errors import Ec2Error, ResponseLostError
from lab.embedded.ec2.emulation import Ec2Emulation, install

__all__ = ["Ec2Emulation", "Ec2Error", "ResponseLostError", "install"]
