"""A reranker that does nothing: searches go to OpenSearch as they came, and its answers to whoever asked.

``python benchmarks/speed_proxy.py --port PORT --engine URL`` serves it by the same HTTP server, the same framework and
the same client as ``resift serve``. What a search costs through it is what the second trip through HTTP costs, which no
rewriting can be below. To search pipelines it gives back each body as it came.
"""

from __future__ import annotations

import argparse

from flask import Flask, Response, request

from resift.cli.http_server import HttpServer, bind
from resift.plugin.opensearch.client import call_for_text, connect
from resift.reranker.api import as_text
from resift.service.config import Config


def proxy(engine: str) -> Flask:
    """The application."""
    app, client = Flask(__name__), connect(engine, 30)
    app.config["RESIFT"] = Config()  # what the server wants to know: how long a request may take, and how large it is

    @app.get("/healthz")
    def healthz() -> str:
        return "ok"

    @app.post("/<index>/_search")
    def search(index: str) -> Response:
        text = call_for_text(client.search, index=index, body=request.get_data(as_text=True))
        return Response(text, mimetype="application/json")

    @app.post("/v1/rewrite")
    def rewrite() -> dict[str, str]:
        return {"body": as_text(request.get_json()["body"])}

    return app


class Proxy(HttpServer):
    """One worker of it."""

    def __init__(self, port: int, engine: str) -> None:
        self.engine = engine
        super().__init__(bind("127.0.0.1", port), 1)

    def load(self) -> Flask:
        """The application."""
        return proxy(self.engine)


def main() -> None:
    """Serve until a signal comes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--engine", required=True)
    options = parser.parse_args()
    Proxy(options.port, options.engine).run()


if __name__ == "__main__":
    main()
