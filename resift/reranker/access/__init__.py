"""Who may do what: keys and their scopes, the indices that are served, and what pages in browsers may do."""
