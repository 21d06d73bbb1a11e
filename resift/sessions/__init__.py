"""Sessions: what was judged, and what that says of a search."""
