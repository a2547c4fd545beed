#!/bin/bash
# On a node, as root: starts each runner that is meant for this instance, once. RUNNERS_TABLE names the table; the
# runner's program is in /opt/actions-runner, and jobs run as the user "runner".
set -euo pipefail
metadata=http://169.254.169.254/latest
token=$(curl -fsSX PUT $metadata/api/token -H 'X-aws-ec2-metadata-token-ttl-seconds: 300')
document=$(curl -fsSH "X-aws-ec2-metadata-token: $token" $metadata/dynamic/instance-identity/document)
arn=$(jq -r '"arn:aws:ec2:\(.region):\(.accountId):instance/\(.instanceId)"' <<<"$document")
AWS_DEFAULT_REGION=$(jq -r .region <<<"$document")
export AWS_DEFAULT_REGION
mkdir -p /run/runners
while sleep 10; do
  aws dynamodb query --table-name "$RUNNERS_TABLE" --key-condition-expression 'instance_arn = :arn' \
      --expression-attribute-values "{\":arn\": {\"S\": \"$arn\"}}" --output json |
    jq -r '.Items[] | [.runner.S, .configuration.S] | @tsv' |
    while IFS=$'\t' read -r runner configuration; do
      if mkdir "/run/runners/$runner" 2>/dev/null; then
        cp -r /opt/actions-runner "/run/runners/$runner/program"
        chown -R runner "/run/runners/$runner"
        # In the environment and not among the arguments, which everybody on the machine can see.
        CONFIGURATION=$configuration setsid runuser -u runner --preserve-environment -- \
          bash -c 'cd "/run/runners/$0/program" && ACTIONS_RUNNER_INPUT_JITCONFIG=$CONFIGURATION ./run.sh' "$runner" &
      fi
    done
done
