"""Interfaces of search engines and session stores, and the types that searches and documents have."""
