"""The command line: each command reads its options, calls a function or two, and prints."""
