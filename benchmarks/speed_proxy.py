"""A proxy that forwards searches to OpenSearch unchanged.

``python benchmarks/speed_proxy.py --port PORT --engine URL`` runs with the same HTTP server, web framework and client
as ``resift serve``. A search through the proxy measures the cost of the second HTTP request, which is the minimum cost
of a search through the service. ``/v1/rewrite`` returns each body unchanged.
"""

from __future__ import annotations

import argparse
import json

from flask import Flask, Response, request

from resift.cli.http_server import HttpServer, bind
from resift.plugin.opensearch.client import call_for_text, connect
from resift.reranker.access.requests import ApiKeys
from resift.reranker.api import escaped_text
from resift.service.config import Config


def proxy(engine: str) -> Flask:
    """Create the application."""
    app, client = Flask(__name__), connect(engine, 30)
    config = app.config["RESIFT"] = Config()  # the HTTP server reads the limits of requests
    app.extensions["resift_keys"] = ApiKeys.from_config(config)  # and lets callers take turns, by their keys

    @app.get("/healthz")
    def healthz() -> str:
        return "ok"

    @app.post("/<index>/_search")
    def search(index: str) -> Response:
        text = call_for_text(client.search, index=index, body=request.get_data(as_text=True))
        return Response(text, mimetype="application/json")

    @app.post("/v1/rewrite")
    def rewrite() -> dict[str, str]:
        return {"body": escaped_text(json.dumps(request.get_json()["body"]).encode())}

    return app


class Proxy(HttpServer):
    """An HTTP server with a worker that runs the proxy."""

    def __init__(self, port: int, engine: str) -> None:
        self.engine = engine
        super().__init__(bind("127.0.0.1", port), 1)

    def load(self) -> Flask:
        """Create the application."""
        return proxy(self.engine)


def main() -> None:
    """Serve until a signal arrives."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--engine", required=True)
    options = parser.parse_args()
    Proxy(options.port, options.engine).run()


if __name__ == "__main__":
    main()
