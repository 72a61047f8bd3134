"""What a real kernel sends to a notebook, what a log has for those who want one, and nothing elsewhere."""

import logging
import re

import pytest

import gcmf

MADE = """
import numpy as np
rng = np.random.default_rng(0)
data = {("a", "b"): rng.normal(size=(40, 1)) @ rng.normal(size=(1, 12)) + 0.1 * rng.normal(size=(40, 12))}
"""


def data():
    names = {}
    exec(MADE, names)
    return names["data"]


def run(*codes):
    """Cells as a real kernel leaves them, and the kinds of all messages that it sent."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient, which runs notebooks, is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel, which runs notebooks, is not installed")
    made, sent = pytest.importorskip("nbformat.v4"), []

    class Client(nbclient.NotebookClient):
        def process_message(self, msg, cell, cell_index):
            sent.append(msg["msg_type"])
            return super().process_message(msg, cell, cell_index)

    book = made.new_notebook(cells=[made.new_code_cell(code) for code in codes])
    Client(book, timeout=600, kernel_name="python3").execute()
    return [cell.outputs for cell in book.cells], sent


@pytest.mark.filterwarnings("ignore")  # those of the tools that run notebooks
def test_a_notebook_shows_one_line_that_is_replaced():
    patient = "progress.PATIENCE_SECONDS, bars._BETWEEN_SECONDS = 1e9, 0.0"
    start = f"import gcmf\nfrom gcmf.estimators import bars, progress\n{patient}\n{MADE}"
    fit = "model = gcmf.GCMF(2, random_state=0, n_threads=1{}).fit(data)"
    fits = [fit.format(wish) for wish in ("", ", progress=True", ", progress=False")]
    outputs, sent = run(start, *fits, "len(model.elbo_trace_)", "gcmf.plot.structure(model)", "model")
    _, quick, watched, quiet, count, picture, table = outputs
    assert quick == quiet == []  # nobody has waited, or wants to know
    (line,) = watched
    sweeps = int(count[0]["data"]["text/plain"])
    assert line["data"]["text/plain"].startswith(f"sweep {sweeps} of at most 1000, ELBO ")
    assert re.search(r'<progress value="\d+" max="1000"', line["data"]["text/html"])
    assert sent.count("update_display_data") > sweeps / 2
    assert "image/png" in picture[0]["data"]
    assert "1 factor" in table[0]["data"]["text/html"]


def test_a_log_has_the_fit_and_its_sweeps_for_those_who_ask(caplog, capfd):
    with caplog.at_level(logging.DEBUG, "gcmf"):
        model = gcmf.GCMF(2, random_state=0, n_threads=1).fit(data())
    first, *sweeps, last = [record.getMessage() for record in caplog.records]
    assert first == "GCMF: fitting 1 relation over 2 entity sets, 480 cells"
    assert len(sweeps) == model.n_iter_
    assert sweeps[-1].startswith(f"sweep {model.n_iter_} of at most 1000: ELBO ")
    assert last == f"GCMF: {model.n_iter_} sweeps, 1 factor, {model.status_}"
    caplog.clear()
    with caplog.at_level(logging.INFO, "gcmf"):
        gcmf.GCMF(2, random_state=0, n_threads=1).fit(data())
    assert len(caplog.records) == 2
    assert capfd.readouterr() == ("", "")


def test_nothing_is_logged_to_a_program_that_has_set_up_no_logging(capfd):
    assert any(isinstance(handler, logging.NullHandler) for handler in logging.getLogger("gcmf").handlers)
    gcmf.GCMF(2, random_state=0, n_threads=1).fit(data())
    assert capfd.readouterr() == ("", "")
