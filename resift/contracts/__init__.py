"""Interfaces of search engines and session stores, with the types of their arguments and results."""
