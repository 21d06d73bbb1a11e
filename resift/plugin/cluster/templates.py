"""The bodies of what Resift puts into a cluster: JSON templates of the folder ``resources``, filled in and stamped.

Everything that is made carries a stamp in its description, so that only our own things are ever changed or removed.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from resift.plugin import read_resource

_STAMP = re.compile(
    r"Resift (?P<version>[^\s,]+), model (?P<model>[^\s,]+), content (?P<content>[^\s,]+)(?:, key (?P<key>[^\s,]+))?"
)
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


@dataclass(frozen=True)
class Stamp:
    """Who made a resource: Resift's version, the model's hash, and a fingerprint of the resource's content.

    ``key`` is the fingerprint of the API key that it carries, None if it carries none.
    """

    version: str
    model: str
    content: str
    key: str | None = None

    def __str__(self) -> str:
        key = "" if self.key is None else f", key {self.key}"
        return f"Resift {self.version}, model {self.model}, content {self.content}{key}"

    @classmethod
    def read(cls, text: Any) -> Stamp | None:
        """Return the stamp that a description holds, or None if there is none, since the resource is not ours."""
        found = _STAMP.search(text) if isinstance(text, str) else None
        return cls(**found.groupdict()) if found else None


def fingerprint(text: str) -> str:
    """A short hash of a resource's content."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def fill(template: Any, values: dict[str, Any]) -> Any:
    """Replace every ``{{name}}`` in a JSON template; a string that is nothing else becomes the value itself.

    Raises KeyError for a name that ``values`` lacks.

    >>> fill({"a": "{{n}}", "b": "x-{{n}}"}, {"n": 3})
    {'a': 3, 'b': 'x-3'}
    """
    if isinstance(template, dict):
        return {key: fill(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [fill(value, values) for value in template]
    if not isinstance(template, str):
        return template
    whole = _PLACEHOLDER.fullmatch(template)
    if whole:
        return values[whole[1]]
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), template)


def render(name: str, values: dict[str, Any]) -> tuple[dict[str, Any], Stamp]:
    """The body of the resource whose template is ``NAME.json``, and its stamp.

    ``values`` hold what the template names, and the ``version`` and ``model`` of the stamp.
    """
    template = json.loads(read_resource(f"{name}.json"))
    # The fingerprint leaves out the stamp, which holds it, and what the settings were before: that belongs to the
    # cluster, and a second install must not find the template changed by it.
    bare = fill(template, {**values, "stamp": "", "settings_before": None})
    stamp = Stamp(values["version"], values["model"], fingerprint(json.dumps(bare, sort_keys=True)))
    return fill(template, {"settings_before": None, **values, "stamp": str(stamp)}), stamp
