"""``reservoir validate``."""

import typer

from reservoir.cli import files
from reservoir.cli.console import fail, output, report
from reservoir.core.model.node_class import NodeClass
from reservoir.core.model.node_pool import NodePool
from reservoir.core.model.team import Team
from reservoir.core.model.workload import Workload
from reservoir.manifests.crosscheck import ObjectSet, cross_check, problem_of
from reservoir.manifests.doubtful_values import doubts_in
from reservoir.manifests.known_values import shipped
from reservoir.manifests.parsing.problems import errors_of
from reservoir.manifests.validate import read_files


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("validate")(validate)


def validate(filenames: files.Filenames) -> None:
    """Check manifests, without an AWS account. Every kind, alone and together."""
    reading = read_files(files.read(filenames))
    report(reading.problems)
    values = [read.manifest.to_core() for read in reading.manifests]
    world = ObjectSet(
        [value for value in values if isinstance(value, NodePool)],
        [value for value in values if isinstance(value, NodeClass)],
        [value for value in values if isinstance(value, Workload)],
        [value for value in values if isinstance(value, Team)],
        known=shipped(),
    )
    documents = {read.identity: read.document for read in reading.manifests}
    found = cross_check(world, reading.unread_kinds)
    doubts = [problem_of(doubt, documents.get((doubt.kind, doubt.name))) for doubt in found]
    report(doubts)
    for document in reading.refused:
        report(list(doubts_in(document, shipped())))
    if errors_of(reading.problems):
        fail("not valid")
    if not reading.manifests:
        fail("the input holds no manifest")
    if errors_of(doubts):
        fail("not valid together")
    output().print(f"{len(values)} valid")
