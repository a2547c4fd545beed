"""Make the subscription "ci" for the namespace "ci", and print what to connect to; with "remove", remove it.

python subscribe.py BUS [remove]
"""

import sys

from reservoir.client import Subscription

bus, *more = sys.argv[1:]
if more == ["remove"]:
    Subscription.remove("ci", bus)
else:
    print(Subscription.create("ci", bus, ["ci"]).events_queue_url)
