"""The command line, called from within: what it says, and what `--json` reports."""

import json

from typer.testing import CliRunner

from gcmf.cli import main


def run(*arguments):
    """What became of `gcmf ARGUMENTS`."""
    return CliRunner().invoke(main.app, [str(one) for one in arguments])


def report(*arguments):
    """What `gcmf ARGUMENTS --json` reports, which has to succeed."""
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)
