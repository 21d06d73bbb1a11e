"""Search bodies: how they are read, and which parts of OpenSearch's query language Resift writes and allows."""
