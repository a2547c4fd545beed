#!/bin/sh
# User data for Amazon Linux 2023 (spec.userData of an EC2NodeClass); better, install the agent in the image.
set -eu
python3.11 -m venv /opt/reservoir || { dnf install -y python3.11; python3.11 -m venv /opt/reservoir; }
/opt/reservoir/bin/pip install --require-hashes -r https://example.com/reservoir/requirements.txt
id reservoir-research >/dev/null 2>&1 || useradd --system --shell /sbin/nologin reservoir-research
mkdir -p /etc/reservoir
cat >/etc/reservoir/agent.toml <<'END'
node_claims_table = "{{reservoir.nodeClaimsTable}}"
reports_queue_url = "{{reservoir.reportsQueueUrl}}"

[[run]]
workload = "research/train-*"
command = ["/opt/train/launch.sh"]
checkpoint = ["/opt/train/checkpoint.sh"]
user = "reservoir-research"
per_node = true
END
for unit in reservoir-metadata reservoir-agent; do
  curl -fsS "https://example.com/reservoir/$unit.service" -o "/etc/systemd/system/$unit.service"
done
systemctl daemon-reload
systemctl enable --now reservoir-agent
