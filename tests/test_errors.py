"""The error tree in the docstring matches the classes."""

import inspect

from nextquery import errors


def test_the_tree_is_as_drawn() -> None:
    classes = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind)}
    assert set(classes) == set(errors.__all__)
    for name, kind in classes.items():
        assert issubclass(kind, errors.NextqueryError)
        assert errors.__doc__ is not None
        assert name in errors.__doc__
    assert issubclass(errors.InvalidInput, ValueError)
    assert issubclass(errors.StorageError, OSError)
    assert issubclass(errors.NotAFolder, errors.StorageError)
    assert issubclass(errors.Damaged, errors.StorageError)
