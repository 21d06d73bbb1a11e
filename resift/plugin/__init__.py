"""Search engines and session stores: how they are reached, and what Resift installs in a cluster."""
