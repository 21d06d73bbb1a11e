"""The embedded engine and a store of sessions, each in an SQLite file."""
