"""`python -m gcmf` is the command `gcmf`."""

from gcmf.cli.main import app

if __name__ == "__main__":
    app(prog_name="gcmf")
