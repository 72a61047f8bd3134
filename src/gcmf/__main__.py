"""`python -m gcmf` is the command `gcmf`."""

from gcmf.cli.main import run

if __name__ == "__main__":
    run()
