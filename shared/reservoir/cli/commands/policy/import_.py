"""``reservoir import``."""

import typer

from reservoir.cli import files
from reservoir.cli.console import fail, report
from reservoir.manifests.answers.render import to_yaml
from reservoir.manifests.crosscheck import ObjectSet, cross_check, problem_of
from reservoir.manifests.importing.take_over import take_over
from reservoir.manifests.kinds.node_class import NodeClassManifest
from reservoir.manifests.kinds.node_pool import NodePoolManifest
from reservoir.manifests.kinds.workload import WorkloadManifest
from reservoir.manifests.known_values import shipped
from reservoir.manifests.parsing.problems import Problem, errors_of
from reservoir.manifests.validate import Reading, read_files

_WRITTEN = "what was written"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("import")(import_)


def import_(filenames: files.Filenames) -> None:
    """Write manifests for what other systems call their capacity. What has no counterpart is named, with its line.

    Reads Karpenter's NodePools and EC2NodeClasses, EKS node groups and eksctl's ClusterConfig, Auto Scaling groups,
    launch templates, compute environments of AWS Batch (as the AWS CLI prints them, or in CloudFormation's JSON),
    ParallelCluster's and SkyPilot's files. The manifests go to the standard output, all else to the error stream.
    """
    found = take_over(files.read(filenames))
    problems = sorted(found.problems, key=lambda it: (it.source, it.line or 0, it.path))
    report(problems)
    if errors_of(problems):
        fail("not imported")
    if not found.manifests:
        fail("the input holds nothing to import")
    text = to_yaml(found.manifests)
    reading = read_files([(_WRITTEN, text)])
    wrong = [*errors_of(reading.problems), *_contradictions(reading)]
    typer.echo(text, nl=False)
    if wrong:
        report(wrong)
        fail("the manifests need work before they are valid")


def _contradictions(reading: Reading) -> list[Problem]:
    """Return what is wrong with the manifests together."""
    manifests = [read.manifest for read in reading.manifests]
    world = ObjectSet(
        [each.to_core() for each in manifests if isinstance(each, NodePoolManifest)],
        [each.to_core() for each in manifests if isinstance(each, NodeClassManifest)],
        [each.to_core() for each in manifests if isinstance(each, WorkloadManifest)],
        [],
        known=shipped(),
    )
    documents = {read.identity: read.document for read in reading.manifests}
    doubts = cross_check(world, reading.unread_kinds)
    told = [problem_of(doubt, documents.get((doubt.kind, doubt.name))) for doubt in doubts]
    return list(errors_of(told))
