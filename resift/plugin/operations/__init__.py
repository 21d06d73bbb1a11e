"""What is done to a cluster and its indices, as functions that show a plan, run it and return what came of it."""
