"""A bar while tables are read: on a terminal, after a while, and never otherwise."""

import io
import time

import pytest
from rich.console import Console
from typer.testing import CliRunner

import gcmf
from gcmf.cli import main, terminal
from gcmf.io.guess.discover import discover
from gcmf.io.guess.draft import write_project
from io_samples import lastfm


@pytest.fixture
def screen(monkeypatch):
    """A terminal whose text can be read."""
    shown = io.StringIO()
    wide = Console(file=shown, force_terminal=True, width=100)
    monkeypatch.setattr(terminal, "console", lambda **_: wide)
    return shown


def test_a_long_wait_has_a_bar(screen, monkeypatch):
    monkeypatch.setattr(terminal, "_SECONDS", 0.01)
    with terminal.waiting("Reading") as report:
        report("a[red].csv\x1b[31m", 1, 3)
        while "Reading" not in screen.getvalue():  # the bar draws itself
            time.sleep(0.01)
    assert "Reading a[red].csv?" in screen.getvalue()
    assert "\x1b[31m.csv" not in screen.getvalue()


def test_a_short_wait_has_none(screen):
    with terminal.waiting("Reading") as report:
        report("a.csv", 0, 1)
    assert screen.getvalue() == ""


def test_no_terminal_no_bar(capfd, monkeypatch):
    monkeypatch.setattr(terminal, "_SECONDS", 0.0)
    with terminal.waiting("Reading") as report:
        report("a.csv", 0, 1)
        time.sleep(0.05)
    assert capfd.readouterr() == ("", "")


def test_errors_pass(screen, monkeypatch):
    monkeypatch.setattr(terminal, "_SECONDS", 0.0)
    with pytest.raises(KeyError), terminal.waiting("Reading"):
        raise KeyError


def test_what_cannot_be_written_is_said_before_anything_is_read(tmp_path, monkeypatch):
    lastfm(tmp_path)
    (tmp_path / "gcmf.toml").touch()
    monkeypatch.setattr("gcmf.io.guess.look.open_table", lambda *_: pytest.fail("nothing should be read"))
    done = CliRunner().invoke(main.app, ["init", str(tmp_path)])
    assert "--force" in done.stderr


def test_reading_tells_what_it_reads(tmp_path):
    told = []
    found = discover(lastfm(tmp_path), base=tmp_path, report=lambda *said: told.append(said))
    assert told[0] == ("artists.dat", 0, 5)
    assert [number for _, number, _ in told] == list(range(5))
    write_project(found, tmp_path / "gcmf.toml", replace=False)
    told.clear()
    gcmf.read_project(tmp_path, report=lambda *said: told.append(said))
    sections = len(found.relations) + len(found.features) + len(found.entities)
    assert [said[1:] for said in told] == [(number, sections) for number in range(sections)]
