"""The commands of Slurm that the integration uses."""

import re
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

_TIMEOUT_S: Final = 60
_IS_PENDING: Final = "Job is pending execution"
# What comes from a bus must not become an option or a list of nodes.
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TEXT: Final = re.compile(r"[^A-Za-z0-9 .,:()/_-]")


class SlurmError(Exception):
    """Slurm refused a command; it is tried again with the request that it belongs to."""


@dataclass(frozen=True, slots=True)
class Slurm:
    """Runs ``scontrol`` and ``squeue``; ``conf`` is the path of slurm.conf."""

    conf: str

    def hostnames(self, hostlist: str) -> list[str]:
        """Return the nodes of a host list, as Slurm writes them."""
        return self.run("scontrol", "show", "hostnames", hostlist).split()

    def place(self, node: str, address: str, features: Collection[str]) -> None:
        """Say where a node is, and what it is made of."""
        plain = ",".join(sorted(_checked(feature) for feature in features))
        self.update(node, f"NodeAddr={_checked(address)}", f"NodeHostName={_checked(node)}")
        self.update(node, f"AvailableFeatures={plain}", f"ActiveFeatures={plain}")

    def features(self, node: str) -> frozenset[str]:
        """Return what a node was said to be made of."""
        shown = self.run("scontrol", "--oneliner", "show", "node", _checked(node))
        found = re.search(r"\bActiveFeatures=(\S+)", shown)
        return frozenset() if found is None else frozenset(found[1].split(","))

    def is_powering_up(self, node: str) -> bool:
        """Whether Slurm waits for a node."""
        return "POWERING_UP" in self.run(
            "scontrol", "--oneliner", "show", "node", _checked(node)
        )

    def jobs_on(self, node: str) -> list[str]:
        """Return the jobs that are on a node, each element of an array by itself; not those that were requeued."""
        states = "--states=CONFIGURING,RUNNING,SUSPENDED"
        return self.run(
            "squeue", "--noheader", "--format=%A", states, f"--nodelist={_checked(node)}"
        ).split()

    def explain(self, job: str, text: str) -> None:
        """Show a sentence beside a job, as ``squeue`` prints it with ``admin_comment``."""
        self.run(
            "scontrol",
            "update",
            f"JobId={_checked(job)}",
            f"AdminComment={_TEXT.sub('?', text)[:200]}",
        )

    def requeue(self, job: str) -> None:
        """Let a job begin anew elsewhere; one that was requeued by the notice for another of its nodes waits already.

        Slurm would leave the nodes that it ran on two minutes to clean up; these are powered down.
        """
        try:
            self.run("scontrol", "requeue", _checked(job))
        except SlurmError as error:
            if _IS_PENDING not in str(error):
                raise
        self.run("scontrol", "update", f"JobId={job}", "StartTime=now+10")

    def update(self, node: str, *changes: str) -> None:
        """Change a node."""
        self.run("scontrol", "update", f"NodeName={_checked(node)}", *changes)

    def run(self, *command: str) -> str:
        """Run a command; raises SlurmError with what it said."""
        done = subprocess.run(  # noqa: S603 - no shell, and every argument is checked
            command,
            env={"SLURM_CONF": self.conf, "PATH": "/usr/bin:/usr/local/bin:/opt/slurm/bin"},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            raise SlurmError(f"{' '.join(command[:3])}: {done.stderr.strip()[:300]}")
        return done.stdout


def _checked(text: str) -> str:
    if not _PLAIN.fullmatch(text):
        raise SlurmError(f"{text!a} is no name")
    return text
