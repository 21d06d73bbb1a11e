"""Bodies of the resources that Resift creates in a cluster.

The bodies are JSON templates in the folder ``resources``. Each body carries a :class:`Stamp` in its description. Resift
only changes or removes resources that carry a stamp.
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
    """A short text in the description of a resource, which identifies the resource as created by Resift.

    Attributes:
        version: The version of Resift.
        model: The hash of the model.
        content: A fingerprint of the resource's content.
        key: A fingerprint of the API key in the resource, or None if the resource contains no key.
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
        """Find the stamp in the description of a resource. A stamp identifies resources that Resift created.

        Args:
            text: The description.

        Returns:
            The stamp, or None if Resift did not create the resource.
        """
        match = _STAMP.search(text) if isinstance(text, str) else None
        return cls(**match.groupdict()) if match else None


def fingerprint(text: str) -> str:
    """Return a short hash of a text: the first 12 hexadecimal digits of its SHA-256 hash."""
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def ingest_batch_size(bags: str | None) -> int:
    """Return the number of documents that an ingest pipeline sends to the service in a single encoding request.

    Args:
        bags: The document field with a list of vectors (a bag) that the model encodes, or None if it encodes texts. A
            bag can have a million characters of JSON, and the service accepts 8 MiB per request.
    """
    return 128 if bags is None else 4


def fill_placeholders(template: Any, values: dict[str, Any]) -> Any:
    """Replace each placeholder ``{{name}}`` in a JSON template with the value of this name.

    A string that consists of a single placeholder is replaced with the value itself, which may be any JSON value.

    Args:
        template: The template as a JSON value.
        values: The values, by name.

    Raises:
        KeyError: If ``values`` does not contain a name.

    >>> fill_placeholders({"a": "{{n}}", "b": "x-{{n}}"}, {"n": 3})
    {'a': 3, 'b': 'x-3'}
    """
    if isinstance(template, dict):
        return {key: fill_placeholders(value, values) for key, value in template.items()}
    if isinstance(template, list):
        return [fill_placeholders(value, values) for value in template]
    if not isinstance(template, str):
        return template
    whole = _PLACEHOLDER.fullmatch(template)
    if whole:
        return values[whole[1]]
    return _PLACEHOLDER.sub(lambda match: str(values[match[1]]), template)


def render_template(name: str, values: dict[str, Any]) -> tuple[dict[str, Any], Stamp]:
    """Create the body of a resource from its template.

    Args:
        name: The name of the template's file, without ``.json``.
        values: The values of the placeholders. The values ``version`` and ``model`` are also part of the stamp.

    Returns:
        The body, and the stamp in it that identifies the resource as created by Resift.
    """
    template = json.loads(read_resource(f"{name}.json"))
    # The fingerprint excludes the stamp, which contains the fingerprint. It also excludes the original cluster settings
    # in the index template. They describe the cluster, and must not make the template differ at a second installation.
    bare = fill_placeholders(template, {**values, "stamp": "", "settings_before": None})
    stamp = Stamp(values["version"], values["model"], fingerprint(json.dumps(bare, sort_keys=True)))
    return fill_placeholders(template, {"settings_before": None, **values, "stamp": str(stamp)}), stamp
