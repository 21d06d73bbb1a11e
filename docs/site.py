"""A hook of MkDocs: files outside of docs/ and the page of all options become part of the site, and links follow.

Links in the repository are relative to the file that they stand in; in the site they lead to where that file is there.
"""

from __future__ import annotations

import importlib
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
# a file of the repository: its name in the site
OUTSIDE = {
    "README.md": "index.md",
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "security-policy.md",  # not beside security.md, which is the same name on some disks
    "resift/data/demo/NOTICE": "NOTICE.txt",
    "resift/plugin/native/README.md": "plugin.md",
    "resift/reranker/openapi.json": "openapi.json",
    "resift/query/allow_list.json": "allow_list.json",
    "docs/README.md": "contents.md",  # MkDocs would take it for the home page
}
_LINK = re.compile(r"\[((?:[^][]|\[[^]]*\])*)\]\(([^)\s#]+)([^)\s]*)\)")  # the text may contain a picture


def on_files(files: Files, config: Any) -> Files:
    """Add the files from outside, and the page of all commands with their options."""
    sys.path.insert(0, str(ROOT / "docs"))
    files.append(File.generated(config, "options.md", content=importlib.import_module("reference").options()))
    if contents := files.get_file_from_path("README.md"):
        files.remove(contents)
    for path, name in OUTSIDE.items():
        files.append(File.generated(config, name, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Let links name files of the site. The text of a link to a file of the code stays, without the link."""
    here = next((path for path, name in OUTSIDE.items() if name == page.file.src_uri), f"docs/{page.file.src_uri}")

    def renamed(match: re.Match[str]) -> str:
        text, link, anchor = _LINK.sub(renamed, match[1]), match[2], match[3]
        if "://" in link:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here), link))
        if target not in OUTSIDE and not target.startswith("docs/"):
            return text  # the site does not contain the code
        named = OUTSIDE.get(target, target.removeprefix("docs/"))
        return f"[{text}]({posixpath.relpath(named, posixpath.dirname(page.file.src_uri) or '.')}{anchor})"

    return _LINK.sub(renamed, markdown)
