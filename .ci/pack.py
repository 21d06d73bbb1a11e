"""Repack built packages reproducibly, and with better compression: ``python .ci/pack.py dist``.

All files in an archive get the time SOURCE_DATE_EPOCH, no owner, and standard permissions. Otherwise the archive would
depend on when, by whom and with which umask it was built. In a wheel, each file is compressed with the strategy that
makes it smallest. Word vectors contain no repetitions, and are 7 % smaller without a search for them (Z_RLE).
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
import time
import zipfile
import zlib
from functools import partial
from pathlib import Path

_STRATEGIES = (zlib.Z_DEFAULT_STRATEGY, zlib.Z_RLE)


def pack_source(path: Path, epoch: int) -> None:
    """Repack a source archive (.tar.gz).

    Args:
        path: The archive, which is overwritten.
        epoch: The time of all files, in Unix seconds.
    """
    packed = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode, member.pax_headers = 0o755 if member.isdir() or member.mode & 0o100 else 0o644, {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    path.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=epoch))


def pack_wheel(path: Path, epoch: int) -> None:
    """Repack a wheel. Its RECORD stays valid, since it contains hashes of the uncompressed files.

    Args:
        path: The wheel, which is overwritten.
        epoch: The time of all files, in Unix seconds.
    """
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():  # in this order, since RECORD must be the last
            content = old.read(name)
            entry = zipfile.ZipInfo(name, time.gmtime(epoch)[:6])
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            best = min(_STRATEGIES, key=lambda strategy: len(_compressed(content, strategy)))
            # zipfile has no parameter for the strategy.
            zipfile._get_compressor = partial(_compressor, best)  # type: ignore[attr-defined]
            new.writestr(entry, content)
    path.write_bytes(packed.getvalue())


def _compressor(strategy: int, *_: int | None) -> zlib._Compress:
    return zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)


def _compressed(content: bytes, strategy: int) -> bytes:
    compressor = _compressor(strategy)
    return compressor.compress(content) + compressor.flush()


def main(folder: Path, epoch: int) -> None:
    """Repack all archives in a folder."""
    for path in sorted(folder.glob("*.tar.gz")):
        pack_source(path, epoch)
    for path in sorted(folder.glob("*.whl")):
        pack_wheel(path, epoch)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["SOURCE_DATE_EPOCH"]))
