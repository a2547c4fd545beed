#!/bin/sh
# ResumeProgram, SuspendProgram and ResumeFailProgram of slurm.conf, by the name under which it is called: leaves a
# request for the daemon and returns, so that neither is ever waited for. Install it as resume, suspend and resume_fail.
set -eu
spool=${RESERVOIR_SLURM_SPOOL:-/var/spool/reservoir-slurm}
request=$(mktemp "$spool/.request.XXXXXX")
printf '%s\n' "$1" >"$request"
mv "$request" "$spool/$(date +%s%N)-$$.$(basename "$0")"
