"""The embedded engine and a session store, both in SQLite files."""
