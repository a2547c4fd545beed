#!/bin/bash
# On a node, as root: starts each runner that is meant for this instance, once. RUNNERS_TABLE names the table. It needs
# curl, jq, the AWS CLI and util-linux; where things are and who runs the jobs can be said in the environment.
set -euo pipefail
user=${RUNNER_USER:-runner}
program=${RUNNER_PROGRAM:-/opt/actions-runner}
folder=${RUNNERS_FOLDER:-/run/runners}
metadata=${AWS_EC2_METADATA_SERVICE_ENDPOINT:-http://169.254.169.254}
metadata=${metadata%/}/latest
token=$(curl -fsSX PUT "$metadata/api/token" -H 'X-aws-ec2-metadata-token-ttl-seconds: 300')
document=$(curl -fsSH "X-aws-ec2-metadata-token: $token" "$metadata/dynamic/instance-identity/document")
arn=$(jq -r '"arn:aws:ec2:\(.region):\(.accountId):instance/\(.instanceId)"' <<<"$document")
AWS_DEFAULT_REGION=$(jq -r .region <<<"$document")
export AWS_DEFAULT_REGION
mkdir -p "$folder"

# Runs one runner; one that cannot be run harms no other.
start() {
  cp -r "$program" "$folder/$1/program"
  chown -R "$user" "$folder/$1"
  cd "$folder/$1/program"
  # In the environment and not among the arguments, which everybody on the machine can see. The runner takes it out of
  # its environment before it runs a job.
  ACTIONS_RUNNER_INPUT_JITCONFIG=$2 exec setsid runuser -u "$user" -- ./run.sh </dev/null
}

while :; do
  # When AWS does not answer, what runs goes on, and it is asked again.
  if found=$(aws dynamodb query --table-name "$RUNNERS_TABLE" --key-condition-expression 'instance_arn = :arn' \
    --expression-attribute-values "{\":arn\": {\"S\": \"$arn\"}}" --output json); then
    while IFS=$'\t' read -r runner configuration; do
      if mkdir "$folder/$runner" 2>/dev/null; then start "$runner" "$configuration" & fi
    done < <(jq -r '.Items[] | [.runner.S, .configuration.S] | @tsv' <<<"$found")
  fi
  sleep 10
done
