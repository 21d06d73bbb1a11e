"""Sessions: the stored judgements of users, and their effect on searches."""
