"""OpenSearch as an engine and as a store of sessions."""
