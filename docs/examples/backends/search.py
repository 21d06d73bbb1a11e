"""Run a hybrid search of a backend, in a session: python search.py QUERY SESSION [PIPELINE]."""

import os
import sys

from opensearchpy import OpenSearch

import resift

query, session, *pipeline = sys.argv[1:]
client = OpenSearch(os.environ.get("OPENSEARCH_URL", "http://127.0.0.1:9200"))
body = {
    "query": {"hybrid": {"queries": [{"match": {"text": query}}, {"term": {"section": "news"}}]}},
    "size": 5,
}
body = resift.rewrite("papers", body, session=session)  # the only line to add
answer = client.search(index="papers", body=body, params={"search_pipeline": pipeline[0]} if pipeline else {})
print(*[hit["_id"] for hit in answer["hits"]["hits"]])
