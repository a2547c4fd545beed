#!/bin/sh
# User data for Amazon Linux 2023 (spec.userData of an EC2NodeClass); better, install the agent in the image.
set -eu
python3.11 -m venv /opt/reservoir || { dnf install -y python3.11; python3.11 -m venv /opt/reservoir; }
/opt/reservoir/bin/pip install --require-hashes -r https://example.com/reservoir/requirements.txt
mkdir -p /etc/reservoir
cat >/etc/reservoir/agent.toml <<'END'
node_claims_table = "{{reservoir.nodeClaimsTable}}"
reports_queue_url = "{{reservoir.reportsQueueUrl}}"

[[run]]
workload = "research/train-*"
command = ["/opt/train/launch.sh"]
checkpoint = ["/opt/train/checkpoint.sh"]
per_node = true
END
curl -fsS https://example.com/reservoir/reservoir-agent.service -o /etc/systemd/system/reservoir-agent.service
systemctl daemon-reload
systemctl enable --now reservoir-agent
