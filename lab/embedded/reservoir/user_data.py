"""User data with which an instance of the emulated account runs the agent, from this checkout."""

from pathlib import Path
from typing import Final

from lab.embedded.reservoir.assembly import ROOT

AGENT: Final = "python -m reservoir.agent agent.toml"


def agent_user_data(
    runs: str,
    *,
    log_folder: str | Path,
    poll_s: int = 2,
    start: str = f"exec {AGENT}",
    log_group: str = "",
) -> str:
    """Return user data that starts the agent.

    Parameters
    ----------
    runs
        The ``[[run]]`` tables of its settings.
    log_folder
        Where its commands' output goes.
    poll_s
        Seconds from one look at what the node is for to the next.
    start
        The lines of shell that start it (``AGENT``), and anything that is done before.
    log_group
        Where that output is copied to; nowhere if it is empty.
    """
    return f"""\
#!/bin/sh
cat > agent.toml <<'END'
node_claims_table = "{{{{reservoir.nodeClaimsTable}}}}"
reports_queue_url = "{{{{reservoir.reportsQueueUrl}}}}"
poll_s = {poll_s}
log_folder = "{log_folder}"
log_group = "{log_group}"

{runs.strip()}
END
export PYTHONPATH="$PYTHONPATH:{ROOT}/shared"
{start.strip()}
"""
