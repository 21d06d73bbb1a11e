"""Check input against declared types: settings, request bodies, search options and command line options.

A declaration is a ``msgspec.Struct``. Its annotations contain the type, range, default and description of each field.
They are used to check values here, and to generate ``/openapi.json``, the signatures of the library, the help of the
command line and the tables of the documentation. In the ``msgspec.Meta`` of an annotation, ``title`` describes the
expected values in error messages, for types that :func:`expected_values` would describe badly.
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

# Parts of msgspec's messages: the path of the invalid value ("… - at `$.facets[1]`"), its steps, and a missing field
_PATH = re.compile(r" - at (?:`key` in )?`\$(.*)`$")
_PATH_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_MISSING_FIELD = re.compile(r"missing required field `(\w+)`")

_MARKDOWN_LINK = re.compile(r"\[([^]]+)\]\([^)]+\)")


def documented(description: str, default: str | None = None, **constraints: Any) -> msgspec.Meta:
    """Create an annotation that describes a field of a ``msgspec.Struct`` for help texts and documentation.

    Args:
        description: The meaning of the field, in Markdown, without an initial capital letter and a final period.
        default: A description of the default, if the default is not a fixed value.
        **constraints: Other arguments of ``msgspec.Meta``, such as limits and ``title``.
    """
    extra = constraints.pop("extra_json_schema", {})
    if default is not None:
        extra = {**extra, "x-default": default}
    return msgspec.Meta(description=description, extra_json_schema=extra or None, **constraints)


def without_links(markdown: str) -> str:
    """Replace each Markdown link with its text."""
    return _MARKDOWN_LINK.sub(r"\1", markdown)


def as_sentence(description: str) -> str:
    """Convert the Markdown description of a field to a sentence in plain text.

    >>> as_sentence("the [page](#pages) that `from` begins")
    'The page that from begins.'
    """
    text = without_links(description).replace("`", "")
    return f"{text[:1].upper()}{text[1:]}."


class Field(NamedTuple):
    """A field of a ``msgspec.Struct``.

    Attributes:
        name: The name of the attribute in Python. The name in JSON can be different.
        type: The type, with its annotations.
        required: Whether the field has no default.
        default: The default value, or None if the field is required.
    """

    name: str
    type: Any
    required: bool
    default: Any


@cache
def fields_of(kind: type[msgspec.Struct]) -> Mapping[str, Field]:
    """Return the fields of a ``msgspec.Struct``, by their names in JSON."""
    fields = {}
    for field in msgspec.structs.fields(kind):
        default = None if field.default is msgspec.NODEFAULT else field.default
        if field.default_factory is not msgspec.NODEFAULT:
            default = field.default_factory()
        fields[field.encode_name] = Field(field.name, field.type, field.required, default)
    return fields


def read_struct(kind: type[S], values: Mapping[str, Any], *, label: str = "field", python_names: bool = False) -> S:
    """Validate values, and convert them to an instance of a ``msgspec.Struct``.

    A value of None counts as missing. Unknown names are an error if the struct forbids unknown fields. Otherwise, they
    are ignored.

    Args:
        kind: The subclass of ``msgspec.Struct``.
        values: The values by field name.
        label: The word for a field in error messages, such as ``option``.
        python_names: Whether ``values`` contains Python names instead of JSON names.

    Raises:
        BadInput: If a required value is missing, a name is unknown, or a value does not fit its type.
        TextTooLong: If a list or object has too many items.
    """
    fields = {field.name: field for field in fields_of(kind).values()} if python_names else fields_of(kind)
    if kind.__struct_config__.forbid_unknown_fields:
        for name in values:
            if name not in fields:
                raise BadInput(f"unknown {label} {name!r}", value=name, expected=" | ".join(fields))
    arguments = {}
    for name, field in fields.items():
        if values.get(name) is not None:
            arguments[field.name] = convert(name, values[name], field.type)
        elif field.required:
            raise BadInput(f"{name} is missing", value=name, expected=expected_values(schema_of(field.type)))
    return kind(**arguments)


def fields_as_arguments(
    kind: Callable[P, S],
) -> Callable[[Callable[[Owner, S], R]], Callable[Concatenate[Owner, P], R]]:
    """Return a decorator for methods that take a struct. Callers pass the fields of the struct as separate arguments.

    For example, a method that is declared as ``search(self, options: SearchOptions)`` can be called as
    ``index.search("bush fire", start=10)``, where ``start`` is a field of ``SearchOptions``.

    The decorated method validates its arguments with :func:`read_struct`, and calls the original method with the
    struct. It raises BadInput for an unknown or invalid argument. NumPy scalars are converted to Python numbers.

    Args:
        kind: The type of the struct, a subclass of ``msgspec.Struct``.
    """
    declaration = cast("type[S]", kind)
    signature, types = inspect.signature(kind), get_type_hints(kind)
    parameters = [parameter.replace(annotation=types[name]) for name, parameter in signature.parameters.items()]

    def decorate(method: Callable[[Owner, S], R]) -> Callable[Concatenate[Owner, P], R]:
        @wraps(method)
        def call(self: Owner, *args: P.args, **kwargs: P.kwargs) -> R:
            arguments = dict(zip(signature.parameters, args, strict=False)) | kwargs
            values = {
                name: value.item() if isinstance(value, np.generic) else value for name, value in arguments.items()
            }
            return method(self, read_struct(declaration, values, label="option", python_names=True))

        method_signature = inspect.signature(method)
        self_parameter = list(method_signature.parameters.values())[:1]
        call.__signature__ = method_signature.replace(  # type: ignore[attr-defined]
            parameters=[*self_parameter, *parameters]
        )
        return cast("Callable[Concatenate[Owner, P], R]", call)

    return decorate


def from_environment(
    kind: Callable[..., S], environment: Mapping[str, str], fallbacks: Mapping[str, str] | None = None
) -> S:
    """Read settings from environment variables named RESIFT_<NAME>.

    Lists are separated by commas. Empty variables count as not set.

    Args:
        kind: The type of the settings, a subclass of ``msgspec.Struct``.
        environment: The environment variables, by name.
        fallbacks: For some settings, the name of another variable to read if RESIFT_<NAME> is not set.

    Raises:
        BadInput: If a variable has an invalid value.
    """
    fallbacks = fallbacks or {}
    values = {}
    for name, field in fields_of(kind).items():
        variable = f"RESIFT_{name.upper()}"
        text = environment.get(variable) or environment.get(fallbacks.get(name, ""))
        if text:
            is_list = schema_of(field.type).get("type") == "array"
            value = [part.strip() for part in text.split(",") if part.strip()] if is_list else text
            values[name] = convert(variable, value, field.type, strict=False)
    return kind(**values)


def convert(name: str, value: Any, type: Any, *, strict: bool = True) -> Any:
    """Validate a value, and convert it to a type.

    Args:
        name: The name of the value in error messages.
        value: The value, as decoded from JSON.
        type: The type, with ``msgspec.Meta`` annotations.
        strict: Whether to reject a string such as "3" or "true" if the type is a number or boolean. Otherwise the
            string is converted.

    Raises:
        BadInput: If the value does not fit the type.
        TextTooLong: If a list or object has too many items.
    """
    try:
        return msgspec.convert(value, type, strict=strict)
    except msgspec.ValidationError as error:
        raise _conversion_error(name, value, type, str(error)) from None
    except UnicodeEncodeError:
        raise _not_unicode(name) from None


def _conversion_error(name: str, value: Any, type: Any, message: str) -> BadInput | TextTooLong:
    """Return the error to raise for a value that msgspec rejected.

    Args:
        name: The name of the value in error messages.
        value: The rejected value.
        type: The type that the value does not fit.
        message: The error message of msgspec, which contains the path of the invalid part.
    """
    schema, path = schema_of(type), _PATH.search(message)
    for step in _PATH_STEP.finditer(path[1]) if path else ():
        key, position = step[1], step[2]
        if key is None and position is None:
            break  # "[...]" stands for any value of an object, so msgspec does not say which value is invalid
        value = value[int(position)] if key is None else value[key]
        name, schema = f"{name}{step[0]}", _schema_of_part(schema, key)
    if missing := _MISSING_FIELD.search(message):
        return BadInput(f"{name}.{missing[1]} is missing", value=missing[1], expected=f"{name} with {missing[1]}")
    limit = _max_items(schema)
    if isinstance(value, (list, dict)) and limit is not None and len(value) > limit:
        return TextTooLong(f"{name} has {len(value)} items", value=len(value), expected=f"at most {limit}")
    return BadInput(f"{name} is {shorten(repr(value))}", value=value, expected=expected_values(schema))


def _schema_of_part(schema: dict[str, Any], key: str | None) -> dict[str, Any]:
    """Return the JSON Schema of a part of a value: a property of an object, or the items of a list.

    Args:
        schema: The JSON Schema of the object or list.
        key: The name of the property, or None for the items of a list.
    """
    for alternative in _with_alternatives(schema):
        if key is None and "items" in alternative:
            return dict(alternative["items"])
        if key is not None and key in alternative.get("properties", {}):
            return dict(alternative["properties"][key])
    return {}


def _max_items(schema: dict[str, Any]) -> int | None:
    """Return the maximum number of items that a JSON Schema allows in a list or object, or None for no limit."""
    for alternative in _with_alternatives(schema):
        for key in ("maxItems", "maxProperties"):
            if key in alternative:
                return int(alternative[key])
    return None


def _with_alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a JSON Schema, followed by the alternative schemas in its ``anyOf``."""
    return [schema, *schema.get("anyOf", ())]


@cache
def schema_of(type: Any) -> dict[str, Any]:
    """Return the JSON Schema of a Python type, in which all references are resolved."""
    schema = msgspec.json.schema(type)
    return dict(_resolve_references(schema, schema.pop("$defs", {})))


def _resolve_references(schema: Any, definitions: Mapping[str, Any]) -> Any:
    """Replace the references (``$ref``) in a JSON Schema with the schemas to which they refer.

    Args:
        schema: The schema, or a part of it.
        definitions: The schemas in ``$defs``, by name.
    """
    if isinstance(schema, list):
        return [_resolve_references(item, definitions) for item in schema]
    if not isinstance(schema, dict):
        return schema
    definition = definitions.get(schema.get("$ref", "").removeprefix("#/$defs/"), {})
    return {
        key: _resolve_references(value, definitions) for key, value in {**definition, **schema}.items() if key != "$ref"
    }


def expected_values(schema: Mapping[str, Any]) -> str:
    """Describe the values that a JSON Schema accepts in plain English, for error messages.

    >>> expected_values({"type": "integer", "minimum": 0, "maximum": 1000})
    'a whole number from 0 to 1000'
    """
    if "title" in schema and "properties" not in schema:
        return str(schema["title"])
    if "anyOf" in schema:
        return " or ".join(
            expected_values(alternative) for alternative in schema["anyOf"] if alternative.get("type") != "null"
        )
    if "enum" in schema:
        return " | ".join(str(value) for value in schema["enum"] if value is not None)
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return _expected_number(schema)
    if kind == "array":
        return f"a list, each {expected_values(schema.get('items', {}))}"
    return {"boolean": "true or false", "string": "a text", "object": "an object"}.get(str(kind), "another value")


def _expected_number(schema: Mapping[str, Any]) -> str:
    """Describe the numbers that a JSON Schema accepts in plain English. See :func:`expected_values`."""
    number = "a whole number" if schema["type"] == "integer" else "a number"
    if {"exclusiveMinimum", "exclusiveMaximum"} <= schema.keys():
        return f"{number} above {schema['exclusiveMinimum']:.15g} and below {schema['exclusiveMaximum']:.15g}"
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None:
        return number
    return f"{number} from {low:.15g}" + ("" if high is None else f" to {high:.15g}")


def check_text(name: str, text: str, limit: int) -> str:
    """Check the length and the encoding of a text, and return the text.

    Args:
        name: The name of the text in error messages.
        text: The text to check.
        limit: The maximum number of characters.

    Raises:
        TextTooLong: If the text has more than ``limit`` characters.
        BadInput: If the text contains a lone surrogate, so it is not valid Unicode.
    """
    if len(text) > limit:
        raise TextTooLong(f"{name} has {len(text)} characters", value=len(text), expected=f"at most {limit}")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _not_unicode(name) from None
    return text


def _not_unicode(name: str) -> BadInput:
    return BadInput(f"{name} contains a lone surrogate", value=name, expected="valid Unicode text")
