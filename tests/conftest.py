"""What every test may count on: the helpers beside this file can be imported, and Ctrl-C is heard."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session", autouse=True)
def _hears_ctrl_c():
    """A shell that runs the suite in the background has Ctrl-C ignored by it, and by every process that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
