"""Everything that learns, and what chooses and judges it. Nothing in here is needed to serve a model that exists."""
