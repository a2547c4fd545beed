"""The node of the demo that runs something: what it is given, and what is seen of its work."""

import subprocess
import time
from pathlib import Path

import yaml

from lab.demo.nodes import TUNING, Nodes, tuning_workload
from reservoir.agent.configuration import read_configuration
from reservoir.core.launching.user_data import filled
from reservoir.manifests.kinds.node_class import NodeClassManifest
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.kinds.workload import WorkloadManifest


def test_its_policy_and_workload_are_valid_and_belong_together(tmp_path: Path) -> None:
    node_class, pool = yaml.safe_load_all(Nodes(tmp_path).prepare().read_text())
    assert (
        NodePoolManifest.model_validate(pool).spec.template.spec.node_class_ref.name
        == node_class["metadata"]["name"]
    )
    assert WorkloadManifest.model_validate(tuning_workload()).to_core().key == TUNING
    assert tuning_workload()["spec"]["nodeSelector"] == {
        "karpenter.sh/nodepool": pool["metadata"]["name"]
    }
    user_data = NodeClassManifest.model_validate(node_class).spec.user_data or ""
    text = filled(
        user_data,
        {"nodeClaimsTable": "claims", "reportsQueueUrl": "https://sqs.example/reports"},
    )
    file = tmp_path / "agent.toml"
    file.write_text(text.partition("<<'END'\n")[2].partition("\nEND\n")[0])
    run = read_configuration(file).run_for(TUNING)
    assert run is not None
    assert run.checkpoint == ("cp", f"{tmp_path}/progress", f"{tmp_path}/checkpoint")


def test_nothing_is_seen_before_anything_was_done(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    assert (nodes.begun(), nodes.progress(), nodes.checkpoint()) == ([], 0, None)


def test_work_begins_again_where_its_checkpoint_says(tmp_path: Path) -> None:
    nodes = Nodes(tmp_path)
    nodes.prepare()
    (tmp_path / "begun").write_text("0\n")
    (tmp_path / "progress").write_text("41\n")
    with subprocess.Popen(["sh", "work.sh"], cwd=tmp_path) as work:  # noqa: S607 - as its node finds it
        assert nodes.checkpoint() is None
        (tmp_path / "checkpoint").write_text("41\n")
        while nodes.progress() <= 41:
            time.sleep(0.01)
        work.kill()
    assert nodes.begun() == [0, 41]
    now = nodes.progress()
    assert (
        nodes.summary()
        == f"began at 0, saved 41, went on from 41 on another node, now at {now}"
    )
