"""Options that several commands share, and options that take their default from where the setting is defined."""

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
    """Several options as one decorator; the command's help shows them in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def option_for(kind: type[Struct], name: str, *names: str, **attributes: Any) -> Decorator:
    """The option ``--name`` for a declared field: its default, range and help are the field's.

    ``names`` are the option's instead, and ``attributes`` win over what is declared.
    """
    field = fields_of(kind)[name]
    schema = schema_of(field.type)
    numbers = [part for part in (schema, *schema.get("anyOf", ())) if "minimum" in part]
    ranged = {"type": click.IntRange(numbers[0]["minimum"], numbers[0]["maximum"])} if numbers else {}
    declared = {"default": field.default, "show_default": True, "help": as_sentence(schema["description"]), **ranged}
    return click.option(*(names or (f"--{name.replace('_', '-')}",)), **{**declared, **attributes})


def service_option(setting: str, **attributes: Any) -> Decorator:
    """The option for a setting of the service, with the service's default and variable."""
    return option_for(Config, setting, **{"envvar": f"RESIFT_{setting.upper()}", "show_envvar": True, **attributes})


def checked_address(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Option callback: an address, refused where it is neither a cluster's nor a file's, before anything is done."""
    is_cluster(value)
    return value


engine_option = service_option(
    "engine", envvar=["RESIFT_ENGINE", "OPENSEARCH_URL"], metavar="URL|FILE", callback=checked_address
)


def _chosen_store(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Option callback: where the sessions are, by default those of the documents of --engine."""
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
    """The service's settings by the variables RESIFT_*: what commands share with it and have no options for."""
    return Config.from_environment()


model_option = service_option("model", metavar="DIR")
port_option = click.option(
    "--port", type=click.IntRange(1, 65535), default=PORT, show_default=True, help="Port to listen on."
)


def parse_field_names(context: click.Context, parameter: click.Parameter, value: str | None) -> list[str] | None:
    """Option callback: names between commas as a list."""
    names = list(dict.fromkeys(name.strip() for name in (value or "").split(",") if name.strip()))
    if value is not None and not names:
        raise BadInput(f"--fields {value!r} names no field", value=value, expected="names with commas between them")
    return names or None


fields_option = click.option(
    "--fields",
    metavar="NAMES",
    show_default="guessed from the first documents",
    help="The documents' text fields, separated by commas.",
    callback=parse_field_names,
)
format_option = click.option(
    "--format",
    "format_",
    type=click.Choice(FORMATS),
    show_default="by the file's ending; jsonl for stdin",
    help="Format of the documents.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print a JSON object instead of text.")


def library_at(engine: str, model: str, index: str, store: str = ":memory:") -> library.Library:
    """The library at an engine for searches of an index, by the service's settings and :func:`index_model`."""
    settings = service_settings()
    with engine_at(engine) as found:
        encoder = index_model(found, index, model)
    return library.open(engine, encoder, sessions=store, session_index=settings.session_index)


def index_model(engine: Engine, index: str, model: str | Path | Model | None = None) -> Model:
    """The model of an index's searches: ``model``, its folder, or the service's, which None stands for.

    Where that is the packaged one, and the index has vectors of another, it is the model in the working directory by
    the name that ``resift attach`` gave it, or that the index has on record.
    """
    if isinstance(model, Model):
        return model
    named = load_model(model or service_settings().model)
    if str(model or service_settings().model) != DEFAULT_MODEL:
        return named
    try:
        info = engine.info(index)
        if info.model is None or info.find_model(named) is not None:
            return named
        folders = [Path(name) for name in (f"{index}-model", info.model_name) if name and Path(name).is_dir()]
        return next((model for model in map(load_model, folders) if info.find_model(model) is not None), named)
    except ResiftError:  # the search says what is wrong
        return named


def engine_at(url: str) -> AbstractContextManager[Engine]:
    """The engine at a URL or in a file, closed at the end."""
    return closing(open_engine(url))


def session_store_at(store: str) -> AbstractContextManager[SessionStore]:
    """The store of sessions at a URL or in a file, closed at the end."""
    return closing(open_session_store(store, service_settings().session_index))


def ubi_log_at(engine: str, store: str) -> AbstractContextManager[UbiLog]:
    """UBI's log beside an engine and its sessions, closed at the end."""
    settings = service_settings()
    return closing(open_ubi_log(ubi_address(engine, store), settings.ubi_events, settings.ubi_queries))
