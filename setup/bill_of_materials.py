"""Prints what a package or the container image is made of, as CycloneDX 1.5 in JSON.

bill_of_materials.py SITE VERSION [PACKAGES]: SITE is the folder of Python's packages, and PACKAGES
that of Debian's packages that were unpacked for an image. The libraries inside the wheel are what
auditwheel has written of them. The same input and SOURCE_DATE_EPOCH make the same bytes.
"""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

DEBIAN_FIELDS = "${Package}\t${Version}\t${Architecture}\n"


def debian_packages(folder: Path) -> Iterator[Component]:
    """Each of Debian's packages, by the fields of its control file."""
    for file in sorted(folder.glob("*.deb")):
        fields = subprocess.run(
            ["dpkg-deb", "--show", f"--showformat={DEBIAN_FIELDS}", file],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        ).stdout
        name, version, architecture = fields.split()
        where = {"arch": architecture, "distro": "debian-12"}
        yield _component(PackageURL("deb", "debian", name, version, where))


def python_packages(site: Path) -> Iterator[Component]:
    """Each of Python's packages, by its metadata."""
    for package in distributions(path=[str(site)]):
        yield _component(PackageURL("pypi", None, package.name.lower(), package.version))


def bundled_libraries(site: Path) -> Iterator[Component]:
    """The libraries that were put into wheels, by the SBOMs in these (PEP 770)."""
    for file in sorted(site.glob("*.dist-info/sboms/*.cdx.json")):
        for component in json.loads(file.read_text())["components"]:
            if not component["purl"].startswith("pkg:pypi/kernel_delay@"):
                url = PackageURL.from_string(component["purl"])
                yield _component(PackageURL(url.type, url.namespace, url.name, url.version))


def bill(site: Path, version: str, packages: Path | None, made: datetime) -> Bom:
    """What that version is made of: an image if it has Debian's packages."""
    kinds = [python_packages(site), bundled_libraries(site)]
    if packages is not None:
        kinds.insert(0, debian_packages(packages))
    found = {str(component.purl): component for kind in kinds for component in kind}
    kind_of_whole = ComponentType.APPLICATION if packages is None else ComponentType.CONTAINER
    whole = Component(name="kernel-delay", version=version, type=kind_of_whole)
    whole.bom_ref.value = "kernel-delay"
    made_of = Bom(
        components=found.values(),
        metadata=BomMetaData(component=whole, timestamp=made),
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, "\n".join(sorted(found))),
    )
    made_of.register_dependency(whole, found.values())
    return made_of


def _component(url: PackageURL) -> Component:
    reference = url.to_string()
    return Component(
        name=url.name,
        version=url.version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=reference,
    )


def main() -> None:
    """Print it."""
    site, version, *folders = sys.argv[1:]
    packages = Path(folders[0]) if folders else None
    made = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), UTC)
    outputter = make_outputter(
        bill(Path(site), version, packages, made), OutputFormat.JSON, SchemaVersion.V1_5
    )
    print(outputter.output_as_string(indent=1))


if __name__ == "__main__":
    main()
