import pickle

import pytest

from gcmf.errors import DataError, GcmfError, MissingExtraError, OptionError, StorageError, UnknownIdError


@pytest.mark.parametrize(
    ("error", "also"),
    [
        (DataError, ValueError),
        (OptionError, ValueError),
        (UnknownIdError, KeyError),
        (MissingExtraError, ImportError),
    ],
)
def test_each_is_also_what_python_calls_it(error, also):
    assert issubclass(error, GcmfError)
    assert issubclass(error, also)
    assert issubclass(StorageError, GcmfError)


def test_data_error_numbers_several_faults():
    assert str(DataError("one")) == "one"
    assert str(DataError(["one", "two"])) == "2 faults in the data:\n  1. one\n  2. two"
    assert pickle.loads(pickle.dumps(DataError(["one", "two"]))).faults == ("one", "two")


def test_unknown_id_reads_plainly():
    assert str(UnknownIdError("No user is named 'x'.")) == "No user is named 'x'."
