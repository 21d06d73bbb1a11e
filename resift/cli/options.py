"""Options that several commands share, and options that take their defaults and help from the declared settings."""

from __future__ import annotations

import os
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
from resift.errors import BadInput, NotFound, ResiftError
from resift.ingest.readers import FORMATS
from resift.plugin.addresses import is_cluster, without_credentials
from resift.schema import as_sentence, fields_of, schema_of
from resift.service.config import Config
from resift.service.connect import (
    SESSIONS_FILE,
    default_session_store,
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
    """Return a decorator that adds several click options to a command, in the order of the arguments."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option_for(kind: type[Struct], name: str, *names: str, **attributes: Any) -> Decorator:
    """Return a click option for a field of a msgspec struct.

    The default value, the allowed range and the help text of the option come from the field.

    Args:
        kind: The struct class.
        name: The name of the field.
        names: The names of the option. By default, this is ``--name`` with hyphens for underscores.
        attributes: Arguments for ``click.option``. They override the values from the field.
    """
    field = fields_of(kind)[name]
    schema = schema_of(field.type)
    numbers = [part for part in (schema, *schema.get("anyOf", ())) if "minimum" in part]
    ranged = {"type": click.IntRange(numbers[0]["minimum"], numbers[0]["maximum"])} if numbers else {}
    declared = {"default": field.default, "show_default": True, "help": as_sentence(schema["description"]), **ranged}
    return click.option(*(names or (f"--{name.replace('_', '-')}",)), **{**declared, **attributes})


def service_option(setting: str, **attributes: Any) -> Decorator:
    """Return a click option for a setting of the service.

    The default value and the help text come from the declared setting. The environment variable ``RESIFT_<SETTING>``
    also sets the option.

    Args:
        setting: The name of a field of ``Config``, for example "engine".
        attributes: Arguments for ``click.option``. They override the values from the setting.
    """
    return option_for(Config, setting, **{"envvar": f"RESIFT_{setting.upper()}", "show_envvar": True, **attributes})


def checked_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Check that the value of an option is the URL of a cluster or the path of a file (click option callback).

    Args:
        context: The click context.
        parameter: The option.
        value: The value from the command line or an environment variable.

    Returns:
        The unchanged value.

    Raises:
        BadInput: If the value is neither a URL nor a path.
    """
    is_cluster(value)
    return value


engine_option = service_option(
    "engine", envvar=["RESIFT_ENGINE", "OPENSEARCH_URL"], metavar="URL|FILE", callback=checked_address
)


def _store_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Return the address of the session store for the option ``--store`` (click option callback).

    Args:
        context: The click context, which contains the value of the option ``--engine``.
        parameter: The option ``--store``.
        value: The address from the user. If it is empty, the default store for the engine is returned: the file of the
            embedded engine, or a separate local file if the engine is a cluster.
    """
    if value:
        return checked_address(context, parameter, value)
    return default_session_store(context.params.get("engine") or service_settings().engine)


store_option = service_option(
    "store",
    metavar="URL|FILE",
    callback=_store_address,
    show_default=f"the embedded engine's file, {SESSIONS_FILE} for a cluster",
)


def service_settings() -> Config:
    """Read the settings of the service from the environment variables ``RESIFT_*``."""
    return Config.from_environment()


model_option = service_option("model", metavar="DIR")
port_option = click.option(
    "--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Port to listen on."
)


def parse_field_names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Split a comma-separated list of field names (click option callback).

    Args:
        context: The click context.
        parameter: The option ``--fields``.
        value: The names, separated by commas, or None if the option is not used.

    Returns:
        The names without duplicates, or None if the option is not used.

    Raises:
        BadInput: If the value contains no name.
    """
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
    show_default="according to the file extension; jsonl for stdin",
    help="Format of the documents.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of text.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def library_at(engine: str, model: str, index: str, store: str = ":memory:") -> library.Library:
    """Open the Resift library with the settings of the service, to search an index.

    Args:
        engine: The URL of a cluster, or the path of an SQLite file.
        model: The folder or the name of a model. If it is the packaged model, but the index has vectors of another
            model, :func:`index_model` looks for that model in the working directory.
        index: The name of the index.
        store: The address of the session store. By default, sessions are stored in memory.

    Raises:
        BadInput: If the file of the sessions cannot be opened. The message names the option ``--store``.
    """
    settings = service_settings()
    with engine_at(engine) as opened_engine:
        encoder = index_model(opened_engine, index, model)
    try:
        return library.open(engine, encoder, sessions=store, session_index=settings.session_index)
    except BadInput as error:
        if error.value != store or is_cluster(store):
            raise
        message = f"the file of the sessions, {store_location(store)}, cannot be used: {error.message}"
        expected = (
            "--store (or RESIFT_STORE) with a file in a folder that can be written, or with the file of the service"
        )
        raise BadInput(message, value=store, expected=expected) from error


def index_model(engine: Engine, index: str, model: str | Path | Model | None = None) -> Model:
    """Load the model that encodes the queries of an index.

    Usually, this is the model that the user has selected. If the user has not selected a model, but the index contains
    vectors of another model than the packaged model, this function looks for the index's model in the working
    directory. It tries the folder ``<index>-model``, which ``resift attach`` creates by default, and then the model
    name that is stored in the index. If neither folder contains the right model, the packaged model is returned.

    Args:
        engine: The engine that contains the index.
        index: The name of the index.
        model: A loaded model, the folder or name of a model, or None for the model in the service's settings.
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
    """Return a context manager that opens a search engine, and closes it at the end of the ``with`` block.

    Args:
        url: The URL of an OpenSearch cluster, or the path of an SQLite file.
    """
    return closing(open_engine(url))


def session_store_at(store: str) -> AbstractContextManager[SessionStore]:
    """Return a context manager that opens an existing session store, and closes it at the end of the ``with`` block.

    Args:
        store: The URL of an OpenSearch cluster, or the path of an SQLite file.

    Raises:
        NotFound: If the file does not exist.
    """
    require_store(store, "sessions")
    return closing(open_session_store(store, service_settings().session_index))


def require_store(store: str, content: str) -> None:
    """Raise an error if a session store does not exist. A new file would hide that a command looks in the wrong place.

    Args:
        store: The URL of an OpenSearch cluster, or the path of an SQLite file.
        content: What the command wants to read from the store, for the error message.

    Raises:
        NotFound: If the file does not exist.
    """
    if not store_exists(store):
        expected = "the file of the service: run this command in the service's folder, or set RESIFT_STORE or --store"
        raise NotFound(f"no {content}: {store_location(store)} does not exist", value=store, expected=expected)


def store_exists(store: str) -> bool:
    """Return whether a session store exists. The index in a cluster is created when it is needed, so it always exists.

    Args:
        store: The URL of an OpenSearch cluster, or the path of an SQLite file.
    """
    return is_cluster(store) or os.path.exists(store)


def store_location(store: str) -> str:
    """Return the address of a store as commands print it: the absolute path of a file, or a URL without password.

    Args:
        store: The URL of an OpenSearch cluster, or the path of an SQLite file.
    """
    return without_credentials(store) if is_cluster(store) else os.path.abspath(store)


def ubi_log_at(engine: str, store: str) -> AbstractContextManager[UbiLog]:
    """Return a context manager that opens an existing UBI log, and closes it at the end of the ``with`` block.

    The log follows OpenSearch's standard for User Behavior Insights (UBI). It contains the queries of the users, and
    events such as clicks.

    Args:
        engine: The address of the search engine.
        store: The address of the session store.

    Raises:
        NotFound: If the log is in a file that does not exist.
    """
    settings, address = service_settings(), ubi_address(engine, store)
    require_store(address, "log of clicks (UBI)")
    return closing(open_ubi_log(address, settings.ubi_events, settings.ubi_queries))
