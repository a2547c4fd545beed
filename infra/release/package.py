"""The files of a release: assets as zips that are the same whenever they are made, checksums, what is in them."""

import hashlib
import json
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path
from typing import Any, Final

# of a zip's time; times of files would make each zip another
_BEGINNING: Final = (1980, 1, 1, 0, 0, 0)
_LICENCE_FILES: Final = ("licen[cs]e*", "copying*", "notice*", "authors*")


@dataclass(frozen=True, slots=True)
class Component:
    """A third-party package in the layer."""

    name: str
    version: str
    licence: str
    texts: Mapping[str, str]


def zip_assets(assembly: Path, folder: Path) -> dict[str, str]:
    """Zip the folders that the stack's assets are; return the files' names by the keys that the CDK gave them."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, str] = {}
    for manifest in sorted(assembly.glob("*.assets.json")):
        for asset in json.loads(manifest.read_text())["files"].values():
            if asset["source"]["packaging"] != "zip":
                continue  # the template itself
            for destination in asset["destinations"].values():
                key = destination["objectKey"]
                names[key] = key
                _zip(assembly / asset["source"]["path"], folder / key)
    return names


def _zip(source: Path, target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(source.rglob("*")):
            if path.is_file():
                entry = zipfile.ZipInfo(path.relative_to(source).as_posix(), _BEGINNING)
                entry.external_attr = (
                    0o755 if path.stat().st_mode & 0o100 else 0o644
                ) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, path.read_bytes())


def components(layer: Path) -> list[Component]:
    """Return what packages a layer holds, by name."""
    found = [_component(path.parent) for path in layer.rglob("*.dist-info/METADATA")]
    return sorted(found, key=lambda each: each.name)


def _component(info: Path) -> Component:
    metadata = HeaderParser().parsestr((info / "METADATA").read_text(encoding="utf-8"))
    stated = metadata["License-Expression"] or metadata["License"] or ""
    classifiers = [
        each for each in metadata.get_all("Classifier", []) if each.startswith("License ::")
    ]
    # Some put the whole text there, of which the first line is the name.
    licence = (
        stated.strip().splitlines()[0]
        if stated.strip()
        else "".join(classifiers[:1]).rpartition(":: ")[2]
    )
    files: set[Path] = set()
    for pattern in _LICENCE_FILES:
        files.update(_named(info, pattern))
    texts = {
        path.relative_to(info).as_posix(): path.read_text(
            encoding="utf-8", errors="replace"
        )
        for path in files
    }
    return Component(
        metadata["Name"],
        metadata["Version"],
        licence or "not stated",
        dict(sorted(texts.items())),
    )


def _named(folder: Path, pattern: str) -> Iterator[Path]:
    wanted = re.compile(pattern.replace("*", ".*"), re.IGNORECASE)
    return (
        path for path in folder.rglob("*") if path.is_file() and wanted.fullmatch(path.name)
    )


def bill_of_materials(version: str, found: list[Component]) -> dict[str, Any]:
    """Return what the release is made of, in CycloneDX's form."""
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": f"pkg:pypi/reservoir-ec2@{version}",
                "name": "reservoir-ec2",
                "version": version,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "purl": f"pkg:pypi/reservoir-ec2@{version}",
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": _purl(each),
                "name": each.name,
                "version": each.version,
                "licenses": [{"license": {"name": each.licence}}],
                "purl": _purl(each),
            }
            for each in found
        ],
    }


def _purl(component: Component) -> str:
    name = component.name.lower().replace("_", "-").replace(".", "-")
    return f"pkg:pypi/{name}@{component.version}"


def licences(found: list[Component]) -> str:
    """Return the licences of the layer's packages as one text."""
    parts = [
        "Packages in the Lambda layer, with what each says of its licence, then the texts that they bring.\n"
    ]
    parts.append("".join(f"{each.name} {each.version}: {each.licence}\n" for each in found))
    for each in found:
        for name, text in each.texts.items():
            parts.append(
                f"{'=' * 80}\n{each.name} {each.version}, {name}\n{'=' * 80}\n{text.rstrip()}\n"
            )
    return "\n".join(parts)


def checksums(folder: Path) -> str:
    """Return the SHA-256 of every file below a folder, as ``sha256sum -c`` reads them."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return "".join(
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}\n"
        for path in files
    )
