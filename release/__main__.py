"""python -m release: wheel, sdist, SBOM, provenance and checksums into dist/; with --base-image, the image as well.

Rule: a release is made of a commit. What is not committed is not released.
"""

import argparse
import sys
from pathlib import Path

from muster import __version__
from release.distributions import NotReleased, build_twice, clean, run, verify
from release.image import build_image, check_base
from release.provenance import checksums, provenance
from release.sbom import sbom

ROOT = Path(__file__).parents[1]


def main() -> int:
    """Exit code 1: there is no release, and one line says why."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="where to; replaced")
    parser.add_argument("--base-image", help="build the image on this base, given with its digest")
    chosen = parser.parse_args()
    try:
        _release(chosen.folder, chosen.base_image)
    except NotReleased as why:
        sys.stderr.write(f"release: {why}\n")
        return 1
    return 0


def _release(folder: Path, base: str | None) -> None:
    if base is not None:
        check_base(base)
    commit, epoch = _commit()
    clean(folder)
    files = build_twice(ROOT, folder, epoch)
    for path in files:
        verify(path, ROOT / "examples")
    inventory = folder / f"muster-{__version__}.cdx.json"
    inventory.write_text(sbom((ROOT / "uv.lock").read_text(encoding="utf-8"), __version__, epoch), encoding="utf-8")
    image = None
    if base is not None:
        tag = f"muster:{__version__}"
        image = {"name": tag, "base": base, "digest": build_image(ROOT, base, tag, epoch)}
    command = f"make release BASE_IMAGE={base}" if base else "make dist"
    statement = folder / f"muster-{__version__}.intoto.json"
    statement.write_text(
        provenance([*files, inventory], commit, epoch, ROOT / "uv.lock", command, image), encoding="utf-8"
    )
    (folder / "SHA256SUMS").write_text(checksums([*files, inventory, statement]), encoding="utf-8")
    sys.stdout.write("".join(f"{path}\n" for path in sorted(folder.iterdir())))


def _commit() -> tuple[str, int]:
    """The commit that is checked out, and when it was made; NotReleased where the tree differs from it."""
    if changed := run(["git", "status", "--porcelain"], ROOT).splitlines():
        raise NotReleased(f"{len(changed)} files differ from the commit, such as `{changed[0][3:]}`: commit them first")
    commit, epoch = run(["git", "log", "-1", "--format=%H %ct"], ROOT).split()
    return commit, int(epoch)


if __name__ == "__main__":
    sys.exit(main())
