"""Options that several commands share, and options that take their defaults and help from the declared settings."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, closing
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from resift import library
from resift.contracts.engine import Engine
from resift.contracts.session_store import SessionStore
from resift.contracts.ubi import UbiLog
from resift.encoders.model import Model
from resift.encoders.registry import load_model
from resift.errors import BadInput, ResiftError
from resift.ingest.readers import FORMATS
from resift.plugin.addresses import is_cluster
from resift.schema import as_sentence, fields_of, schema_of
from resift.service.config import Config
from resift.service.connect import (
    SESSIONS_FILE,
    default_store,
    open_engine,
    open_session_store,
    open_ubi_log,
    ubi_address,
)
from resift.vectors.packaged import DEFAULT_MODEL

Command = Callable[..., Any]
Decorator = Callable[[Command], Command]
PORT = 8080
STORE_HINT = "(--store names another place)"


def combine_options(*options: Decorator) -> Decorator:
    """Return a decorator that adds several options. The help shows them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option_for(kind: type[Struct], name: str, *names: str, **attributes: Any) -> Decorator:
    """Return a command-line option for a field of a msgspec struct.

    The field determines the default value, the allowed range and the help text of the option.

    Args:
        kind: The struct.
        name: The name of the field. The option has the same name.
        names: Other names of the option, which replace ``--name``.
        attributes: Arguments of ``click.option``. They override the values from the field.
    """
    field = fields_of(kind)[name]
    schema = schema_of(field.type)
    numbers = [part for part in (schema, *schema.get("anyOf", ())) if "minimum" in part]
    ranged = {"type": click.IntRange(numbers[0]["minimum"], numbers[0]["maximum"])} if numbers else {}
    declared = {"default": field.default, "show_default": True, "help": as_sentence(schema["description"]), **ranged}
    return click.option(*(names or (f"--{name.replace('_', '-')}",)), **{**declared, **attributes})


def service_option(setting: str, **attributes: Any) -> Decorator:
    """Return a command-line option for a setting of the service, with its default and its environment variable."""
    return option_for(Config, setting, **{"envvar": f"RESIFT_{setting.upper()}", "show_envvar": True, **attributes})


def checked_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check that the value of an option is the URL of a cluster or the path of a file (click option callback)."""
    is_cluster(value)
    return value


engine_option = service_option(
    "engine", envvar=["RESIFT_ENGINE", "OPENSEARCH_URL"], metavar="URL|FILE", callback=checked_address
)


def _chosen_store(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the address of the session store, by default the address of the engine (click option callback)."""
    if value:
        return checked_address(context, parameter, value)
    return default_store(context.params.get("engine") or service_settings().engine)


store_option = service_option(
    "store",
    metavar="URL|FILE",
    callback=_chosen_store,
    show_default=f"the embedded engine's file, {SESSIONS_FILE} for a cluster",
)


def service_settings() -> Config:
    """Return the service's settings from the environment variables RESIFT_*."""
    return Config.from_environment()


model_option = service_option("model", metavar="DIR")
port_option = click.option(
    "--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Port to listen on."
)


def parse_field_names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Parse a comma-separated list of field names (click option callback)."""
    names = list(dict.fromkeys(name.strip() for name in (value or "").split(",") if name.strip()))
    if value is not None and not names:
        raise BadInput(f"--fields {value!r} contains no name", value=value, expected="names separated by commas")
    return names or None


fields_option = click.option(
    "--fields",
    metavar="NAMES",
    show_default="guessed from the first documents",
    help="Text fields of the documents, separated by commas.",
    callback=parse_field_names,
)
format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    show_default="according to the file's ending; jsonl for stdin",
    help="Format of the documents.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of text.")


def library_at(engine: str, model: str, index: str, store: str = ":memory:") -> library.Library:
    """Open the library for searches of an index, with the service's settings.

    Args:
        engine: The address of the engine.
        model: The folder or name of the model; see :func:`index_model`.
        index: The name of the index.
        store: The address of the session store.
    """
    settings = service_settings()
    with engine_at(engine) as opened_engine:
        encoder = index_model(opened_engine, index, model)
    return library.open(engine, encoder, sessions=store, session_index=settings.session_index)


def index_model(engine: Engine, index: str, model: str | Path | Model | None = None) -> Model:
    """Return the model for searches of an index.

    If the requested model is the packaged model, but the index contains vectors of another model, the model is loaded
    from a folder in the working directory. The name of the folder is the default name that ``resift attach`` uses, or
    the model name that is stored in the index. If there is no such folder, the packaged model is returned.

    Args:
        engine: The engine.
        index: The name of the index.
        model: A model, the folder or name of a model, or None for the model in the service's settings.
    """
    if isinstance(model, Model):
        return model
    requested = load_model(model or service_settings().model)
    if str(model or service_settings().model) != DEFAULT_MODEL:
        return requested
    try:
        info = engine.info(index)
        if info.model is None or info.find_model(requested) is not None:
            return requested
        folders = [Path(name) for name in (f"{index}-model", info.model_name) if name and Path(name).is_dir()]
        return next((model for model in map(load_model, folders) if info.find_model(model) is not None), requested)
    except ResiftError:  # let the search report the error
        return requested


def engine_at(url: str) -> AbstractContextManager[Engine]:
    """Return a context manager that opens and closes the engine at a URL or in a file."""
    return closing(open_engine(url))


def session_store_at(store: str) -> AbstractContextManager[SessionStore]:
    """Return a context manager that opens and closes the session store at a URL or in a file."""
    return closing(open_session_store(store, service_settings().session_index))


def ubi_log_at(engine: str, store: str) -> AbstractContextManager[UbiLog]:
    """Return a context manager that opens and closes the UBI log of an engine and a session store."""
    settings = service_settings()
    return closing(open_ubi_log(ubi_address(engine, store), settings.ubi_events, settings.ubi_queries))
