"""The command line: one file per command, each only asks, calls and shows."""
