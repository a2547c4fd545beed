#!/bin/sh
# What the agent of a node runs for a workload of Ray's: node.sh HEAD_ADDRESS [options of `ray start`].
# It ends with status 0 when Ray has taken its work off the node, and with that of Ray when Ray fails.
set -u
export RAY_CLOUD_INSTANCE_ID="$RESERVOIR_WORKLOAD_NAME" RAY_NODE_TYPE_NAME="${RESERVOIR_WORKLOAD_NAME%-*}"
must_go=
trap 'must_go=yes' TERM
# In a session of its own, because the agent's signal goes to all of this one: Ray's head has been told of the same
# drain, and ends the raylet once nothing runs here any more.
setsid ray start --block --address="$@" &
ray=$!
raylet() { pgrep -P "$ray" -x raylet >/dev/null; }
until raylet || [ -n "$must_go" ]; do
  kill -0 "$ray" 2>/dev/null || { wait "$ray"; exit; }
  sleep 1
done
while raylet; do sleep 1; done
# `ray start --block` does not end with its raylet; where it does, the raylet has failed.
kill -0 "$ray" 2>/dev/null || { wait "$ray"; exit; }
kill "$ray"
while kill -0 "$ray" 2>/dev/null; do sleep 1; done
