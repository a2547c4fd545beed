"""Write a release: template, assets, Terraform module, bill of materials, licences, notes, checksums."""

import json
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from infra.app import build_app
from infra.naming import DEPLOYMENT_CONTEXT, EMBEDDED_CONTEXT
from infra.release import choices
from infra.release.package import (
    bill_of_materials,
    checksums,
    components,
    licences,
    zip_assets,
)
from infra.release.template import SETTINGS, SETTINGS_NAME, STACK, released
from infra.release.terraform import module
from infra.release.version import CHANGELOG, ROOT, release_notes
from reservoir.names import VERSION

TEMPLATE: Final = "reservoir.template.json"
CHOSEN: Final = "chosen"


def synthesise(folder: Path, **context: Any) -> None:
    """Synthesise the stack into a folder, under the names of the release; with all choices into one in it."""
    _synthesise(folder, SETTINGS, **context)
    _synthesise(folder / CHOSEN, {**SETTINGS, **choices.SETTINGS}, **context)


def _synthesise(folder: Path, settings: Mapping[str, object], **context: Any) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{SETTINGS_NAME}.yaml"
    path.write_text(json.dumps(dict(settings)), encoding="utf-8")  # JSON is YAML
    given = {
        DEPLOYMENT_CONTEXT: str(path),
        "aws:cdk:disable-asset-staging": True,
        **context,
    }
    build_app(outdir=folder, context=given, is_validated=False).synth()


def write_release(
    folder: Path, *, wheel: Path | None = None, embedded: bool = False
) -> None:
    """Write all files of a release; ``embedded``: with assets for this machine, as the embedded AWS runs them."""
    with tempfile.TemporaryDirectory() as temporary:
        assembly = Path(temporary)
        synthesise(assembly, **({EMBEDDED_CONTEXT: True} if embedded else {}))
        template, chosen = templates_of(assembly)
        names = zip_assets(assembly, folder / "assets")
        layer = layer_of(assembly, template)
    plain = released(template, chosen, names)
    (folder / TEMPLATE).write_text(
        json.dumps(plain, separators=(",", ":"), sort_keys=True) + "\n", encoding="utf-8"
    )
    terraform = folder / "terraform"
    terraform.mkdir()
    (terraform / "main.tf").write_text(module(plain), encoding="utf-8")
    found = components(layer)
    bill = json.dumps(bill_of_materials(VERSION, found), indent=2)
    (folder / "reservoir.cdx.json").write_text(bill + "\n", encoding="utf-8")
    (folder / "THIRD-PARTY-LICENSES").write_text(licences(found), encoding="utf-8")
    shutil.copy(ROOT / "LICENSE", folder / "LICENSE")
    changelog = (ROOT / CHANGELOG).read_text(encoding="utf-8")
    (folder / "RELEASE-NOTES.md").write_text(
        release_notes(changelog, VERSION) + "\n", encoding="utf-8"
    )
    if wheel is not None:
        shutil.copy(wheel, folder / wheel.name)
    (folder / "SHA256SUMS").write_text(checksums(folder), encoding="utf-8")


def templates_of(assembly: Path) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return what was synthesised: the template, and the one with all choices."""
    name = f"{STACK}.template.json"
    return (
        json.loads((assembly / name).read_text()),
        json.loads((assembly / CHOSEN / name).read_text()),
    )


def layer_of(assembly: Path, template: Mapping[str, Any]) -> Path:
    """Return the folder that the layer's asset is made of; assets stay where they were built."""
    (content,) = [
        each["Properties"]["Content"]["S3Key"]
        for each in template["Resources"].values()
        if each["Type"] == "AWS::Lambda::LayerVersion"
    ]
    for manifest in assembly.glob("*.assets.json"):
        for asset in json.loads(manifest.read_text())["files"].values():
            if any(each["objectKey"] == content for each in asset["destinations"].values()):
                return assembly / str(asset["source"]["path"])
    message = f"no asset of the layer {content}"
    raise LookupError(message)
