"""``pip install 'reservoir-ec2[deploy]'`` deploys what a checkout deploys, from wherever it is called.

What the extra brings is what the checkout has installed; npm, which has no network here, is shown to fail, and then
what it would have installed is there. The tests tell one story in their order.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.app import ROOT
from infra.assets.bundle import THIS_MACHINE, code_asset, layer_asset
from lab.embedded.client import EmbeddedAws
from reservoir.names import RELEASE_OUTPUT, VERSION
from tests.deployment.machine import Machine
from tests.installed_wheel import built, installed

pytestmark = pytest.mark.embedded


class Installed(Machine):
    """A machine on which the wheel is installed and no checkout is, in a folder with an ``infra`` of somebody else."""

    def __init__(self, aws: EmbeddedAws, home: Path) -> None:
        super().__init__(aws, home)
        self.settings(terminationProtection=False)
        self.executable = installed(home / "environment", built(home)) / "reservoir"
        (home / "infra").mkdir()
        (home / "infra" / "__init__.py").write_text("raise ImportError('of somebody else')")

    def deployment(self, command: str) -> tuple[int, str]:
        words = ("--deployment", self.path.name, "deployment", command)
        done = self.run(
            str(self.executable), *words, folder=self.home, npm_config_offline="true"
        )
        return done.returncode, done.stdout

    @property
    def checkout(self) -> Path:
        """What the wheel has unpacked."""
        (found,) = (self.home / ".cache" / "reservoir").iterdir()
        return found


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    layer_asset(THIS_MACHINE)
    code_asset(THIS_MACHINE)
    with EmbeddedAws() as aws:
        yield Installed(aws, tmp_path_factory.mktemp("home"))
        print(aws.log())  # noqa: T201 - pytest shows it beside a failure


def test_where_npm_finds_nothing_it_says_so_and_nothing_is_deployed(
    machine: Installed,
) -> None:
    code, said = machine.deployment("diff")
    assert (code, "npm could not install them; it has said why" in said) == (2, True), said


def test_the_same_code_is_deployed_as_from_a_checkout(machine: Installed) -> None:
    (machine.checkout / "node_modules").symlink_to(ROOT / "node_modules")
    (machine.checkout / ".build").mkdir()
    (layer,) = {Path(layer_asset(THIS_MACHINE).path).parent}
    # built here: there is no package index
    (machine.checkout / ".build" / layer.name).symlink_to(layer)
    for command in ("bootstrap", "deploy"):
        code, said = machine.deployment(command)
        assert code == 0, said
    outputs = {
        output["OutputKey"]: output["OutputValue"] for output in machine.stack()["Outputs"]
    }
    assert outputs[RELEASE_OUTPUT] == VERSION
    (code_built,) = (machine.checkout / ".build").glob("code-*")
    assert code_built.name == Path(code_asset(THIS_MACHINE).path).parent.name


def test_check_diff_and_destroy_work_as_well(machine: Installed) -> None:
    code, said = machine.deployment("check")
    assert (code, "instance-role" in said, "execution-role" in said) == (1, True, False), (
        said
    )
    code, said = machine.deployment("diff")
    assert (code, "Stack Reservoir" in said) == (0, True), said
    stack_id = machine.stack()["StackId"]
    destroyed = machine.run(
        *(
            str(machine.executable),
            "--deployment",
            machine.path.name,
            "deployment",
            "destroy",
            "--yes",
        ),
        folder=machine.home,
    )
    assert destroyed.returncode == 0, destroyed.stdout
    (deleted,) = machine.aws.client("cloudformation").describe_stacks(StackName=stack_id)[
        "Stacks"
    ]
    assert deleted["StackStatus"] == "DELETE_COMPLETE"
