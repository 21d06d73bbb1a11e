"""Access control: API keys and their scopes, and the requests that browsers may send."""
