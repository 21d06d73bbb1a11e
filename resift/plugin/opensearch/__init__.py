"""OpenSearch as a search engine, a session store and a UBI log."""
