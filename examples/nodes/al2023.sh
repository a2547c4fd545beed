#!/bin/sh
# User data for Amazon Linux 2023 (spec.userData of an EC2NodeClass); better, do all but the last line in the image.
set -eu
python3.11 -m venv /opt/reservoir || { dnf install -y python3.11; python3.11 -m venv /opt/reservoir; }
/opt/reservoir/bin/pip install --require-hashes -r https://example.com/reservoir/requirements.txt
mkdir -p /etc/reservoir
curl -fsS https://example.com/reservoir/agent.toml -o /etc/reservoir/agent.toml
curl -fsS https://example.com/reservoir/reservoir-agent.service -o /etc/systemd/system/reservoir-agent.service
systemctl daemon-reload
systemctl enable --now reservoir-agent
