"""Ask for two replicas, wait for their machines, and print these.

python submit_and_wait.py DEMAND_QUEUE_URL EVENTS_QUEUE_URL
"""

import sys

from reservoir.client import Client

client = Client.connect(*sys.argv[1:])
build = {
    "apiVersion": "reservoir/v1",
    "kind": "Workload",
    "metadata": {"namespace": "ci", "name": "build"},
    "spec": {"replicas": 2, "resources": {"requests": {"cpu": "3", "memory": "4Gi"}}},
}
# once more changes nothing; other content is the next generation
submitted = client.submit(build)
print(f"{submitted.key} is stored as generation {submitted.generation}")
for node in client.wait_placed(submitted.key, launched=True).nodes:
    print(node.instance_id, node.instance_type, node.capacity_type, node.replicas)
