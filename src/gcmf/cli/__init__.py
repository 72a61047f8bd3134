"""The command line: a file per command, which only asks, calls and shows; `terminal` is what they share.

Commands import what they need when they run, so that help need not wait for it.
"""
