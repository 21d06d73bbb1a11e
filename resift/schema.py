"""Reads what a caller said by the types that declare it: kinds, ranges, defaults and meaning stand in one place.

A declaration is a ``msgspec.Struct``: its annotations are checked here, and described in ``/openapi.json``, in the
library's signatures, in the command line's help and in the tables of the documentation. In an annotation's
``msgspec.Meta``, ``title`` is what an error says was expected, where the type alone does not say it well.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from functools import cache, wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec, TypeVar, cast, get_type_hints

import msgspec
import numpy as np

from resift.errors import BadInput, TextTooLong, shorten

P = ParamSpec("P")
Owner = TypeVar("Owner")
R = TypeVar("R")
S = TypeVar("S", bound=msgspec.Struct)
_PLACE = re.compile(r" - at (?:`key` in )?`\$(.*)`$")
_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_MISSING = re.compile(r"missing required field `(\w+)`")


def documented(meaning: str, default: str | None = None, **more: Any) -> msgspec.Meta:
    """What a field means, in Markdown as docs/ has it, and what is its ``default`` where that is no fixed value.

    ``more``: what else ``msgspec.Meta`` takes, such as limits.
    """
    extra = more.pop("extra_json_schema", {}) | ({} if default is None else {"x-default": default})
    return msgspec.Meta(description=meaning, extra_json_schema=extra or None, **more)


def without_links(meaning: str) -> str:
    """Markdown with the words of its links alone."""
    return _LINK.sub(r"\1", meaning)


def as_sentence(meaning: str) -> str:
    """A meaning as a sentence without Markdown.

    >>> as_sentence("the [page](#pages) that `from` begins")
    'The page that from begins.'
    """
    text = without_links(meaning).replace("`", "")
    return f"{text[:1].upper()}{text[1:]}."


class Field(NamedTuple):
    """A declared field: its ``name`` in Python, its type, and its default where it is not ``required``."""

    name: str
    type: Any
    required: bool
    default: Any


@cache
def fields_of(kind: type[msgspec.Struct]) -> Mapping[str, Field]:
    """The fields of a declaration by the names that callers say."""
    found = {}
    for each in msgspec.structs.fields(kind):
        default = None if each.default is msgspec.NODEFAULT else each.default
        if each.default_factory is not msgspec.NODEFAULT:
            default = each.default_factory()
        found[each.encode_name] = Field(each.name, each.type, each.required, default)
    return found


def read_struct(kind: type[S], given: Mapping[str, Any], *, what: str = "field", arguments: bool = False) -> S:
    """What a caller has ``given`` by name, as a declaration of this ``kind`` has it; None counts as missing.

    Names that are not declared are refused where the declaration forbids them; ``what`` is what an error calls them.
    With ``arguments`` names are those of Python. Raises BadInput for a value that is missing or does not fit, and
    TextTooLong for too many items.
    """
    fields = {field.name: field for field in fields_of(kind).values()} if arguments else fields_of(kind)
    for name in given if kind.__struct_config__.forbid_unknown_fields else ():
        if name not in fields:
            raise BadInput(f"unknown {what} {name!r}", value=name, expected=" | ".join(fields))
    values = {}
    for name, field in fields.items():
        if given.get(name) is not None:
            values[field.name] = convert(name, given[name], field.type)
        elif field.required:
            raise BadInput(f"{name} is missing", value=name, expected=expected(schema_of(field.type)))
    return kind(**values)


def fields_as_arguments(
    kind: Callable[P, S],
) -> Callable[[Callable[[Owner, S], R]], Callable[Concatenate[Owner, P], R]]:
    """Decorator of a method that takes a declaration: its callers give the fields as arguments, which are checked.

    NumPy's numbers count as Python's. Calls raise BadInput for an argument that is not declared or does not fit.
    """
    declaration = cast("type[S]", kind)
    signature, types = inspect.signature(kind), get_type_hints(kind)
    parameters = [each.replace(annotation=types[name]) for name, each in signature.parameters.items()]

    def decorate(method: Callable[[Owner, S], R]) -> Callable[Concatenate[Owner, P], R]:
        @wraps(method)
        def call(self: Owner, *args: P.args, **kwargs: P.kwargs) -> R:
            given = dict(zip(signature.parameters, args, strict=False)) | kwargs
            plain = {name: each.item() if isinstance(each, np.generic) else each for name, each in given.items()}
            return method(self, read_struct(declaration, plain, what="option", arguments=True))

        own = inspect.signature(method)
        shown = own.replace(parameters=[*list(own.parameters.values())[:1], *parameters])
        call.__signature__ = shown  # type: ignore[attr-defined]
        return cast("Callable[Concatenate[Owner, P], R]", call)

    return decorate


def from_environment(
    kind: Callable[..., S], environment: Mapping[str, str], also: Mapping[str, str] | None = None
) -> S:
    """Settings from variables RESIFT_<NAME>, lists separated by commas; empty ones count as not set.

    ``also``: by a setting's name a variable that counts where ours is not set. Raises BadInput for one that does not
    fit.
    """
    values = {}
    for name, field in fields_of(kind).items():
        variable = f"RESIFT_{name.upper()}"
        text = environment.get(variable) or environment.get((also or {}).get(name, ""))
        if text:
            is_list = schema_of(field.type).get("type") == "array"
            value = [part.strip() for part in text.split(",") if part.strip()] if is_list else text
            values[name] = convert(variable, value, field.type, strict=False)
    return kind(**values)


def convert(name: str, value: Any, type: Any, *, strict: bool = True) -> Any:
    """A value as its type has it. Raises BadInput or TextTooLong, which call it ``name``, if it does not fit."""
    try:
        return msgspec.convert(value, type, strict=strict)
    except msgspec.ValidationError as error:
        raise _refusal(name, value, type, str(error)) from None
    except UnicodeEncodeError:
        raise _not_unicode(name) from None


def _refusal(name: str, value: Any, type: Any, message: str) -> BadInput | TextTooLong:
    schema, place = schema_of(type), _PLACE.search(message)
    for step in _STEP.finditer(place[1]) if place else ():
        if step[1] is None and step[2] is None:
            break  # which value of an object does not fit is not told
        value = value[int(step[2])] if step[1] is None else value[step[1]]
        name, schema = f"{name}{step[0]}", _inside(schema, step[1])
    if missing := _MISSING.search(message):
        return BadInput(f"{name}.{missing[1]} is missing", value=missing[1], expected=f"{name} with {missing[1]}")
    most = next((part[key] for part in _parts(schema) for key in ("maxItems", "maxProperties") if key in part), None)
    if isinstance(value, (list, dict)) and most is not None and len(value) > most:
        return TextTooLong(f"{name} has {len(value)} items", value=len(value), expected=f"at most {most}")
    return BadInput(f"{name} is {shorten(repr(value))}", value=value, expected=expected(schema))


def _inside(schema: dict[str, Any], name: str | None) -> dict[str, Any]:
    """The schema of an object's property, or of the items of a list."""
    for part in _parts(schema):
        if name is None and "items" in part:
            return dict(part["items"])
        if name is not None and name in part.get("properties", {}):
            return dict(part["properties"][name])
    return {}


def _parts(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [schema, *schema.get("anyOf", ())]


@cache
def schema_of(type: Any) -> dict[str, Any]:
    """The JSON Schema of a type, its references resolved."""
    schema = msgspec.json.schema(type)
    return dict(_resolved(schema, schema.pop("$defs", {})))


def _resolved(schema: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_resolved(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    named = definitions.get(schema.get("$ref", "").removeprefix("#/$defs/"), {})
    return {key: _resolved(value, definitions) for key, value in {**named, **schema}.items() if key != "$ref"}


def expected(schema: Mapping[str, Any]) -> str:
    """What a JSON Schema takes, in words.

    >>> expected({"type": "integer", "minimum": 0, "maximum": 1000})
    'a whole number from 0 to 1000'
    """
    kind = schema.get("type")
    if "title" in schema and "properties" not in schema:
        return str(schema["title"])
    if "anyOf" in schema:
        return " or ".join(expected(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"] if value is not None)
    if kind in ("integer", "number"):
        number = "a whole number" if kind == "integer" else "a number"
        if {"exclusiveMinimum", "exclusiveMaximum"} <= schema.keys():
            return f"{number} above {schema['exclusiveMinimum']:.15g} and below {schema['exclusiveMaximum']:.15g}"
        low, high = schema.get("minimum"), schema.get("maximum")
        return number if low is None else f"{number} from {low:.15g}" + ("" if high is None else f" to {high:.15g}")
    if kind == "array":
        return f"a list, each {expected(schema.get('items', {}))}"
    return {"boolean": "true or false", "string": "a text", "object": "an object"}.get(str(kind), "another value")


def check_text(name: str, text: str, limit: int) -> str:
    """``text``, if it is Unicode of at most ``limit`` characters. Raises TextTooLong or BadInput if it is not."""
    if len(text) > limit:
        raise TextTooLong(f"{name} has {len(text)} characters", value=len(text), expected=f"at most {limit}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _not_unicode(name) from None
    return text


def _not_unicode(name: str) -> BadInput:
    return BadInput(f"{name} holds a lone surrogate", value=name, expected="Unicode text")
