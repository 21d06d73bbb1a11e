"""Pack what was built once more: the same files always make the same bytes, and fewer. python .ci/pack.py dist

Archives get SOURCE_DATE_EPOCH for all times, and nobody for the user; otherwise they would tell when, by whom and under
which umask they were built. In a wheel each file is compressed as suits it best: vectors repeat nothing, and without a
search for repetitions they take a fifteenth less.
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


def pack_source(path: Path, when: int) -> None:
    """Pack a source archive again."""
    packed = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = when, 0, 0, "", ""
            member.mode, member.pax_headers = 0o755 if member.isdir() or member.mode & 0o100 else 0o644, {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    path.write_bytes(gzip.compress(packed.getvalue(), 9, mtime=when))


def pack_wheel(path: Path, when: int) -> None:
    """Pack a wheel again; its RECORD, which has the contents' hashes, stays as it is."""
    packed = io.BytesIO()
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():  # RECORD is the last
            content = old.read(name)
            entry = zipfile.ZipInfo(name, time.gmtime(when)[:6])
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o100644 << 16
            best = min(_STRATEGIES, key=lambda strategy: len(_compressed(content, strategy)))
            # zipfile knows levels and no strategies
            zipfile._get_compressor = partial(_compressor, best)  # type: ignore[attr-defined]
            new.writestr(entry, content)
    path.write_bytes(packed.getvalue())


def _compressor(strategy: int, *_: int | None) -> zlib._Compress:
    return zlib.compressobj(9, zlib.DEFLATED, -15, 9, strategy)


def _compressed(content: bytes, strategy: int) -> bytes:
    compressor = _compressor(strategy)
    return compressor.compress(content) + compressor.flush()


def main(folder: Path, when: int) -> None:
    """Pack all archives of a folder."""
    for path in sorted(folder.glob("*.tar.gz")):
        pack_source(path, when)
    for path in sorted(folder.glob("*.whl")):
        pack_wheel(path, when)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(os.environ["SOURCE_DATE_EPOCH"]))
