"""Whatever is handed to a public function of the training, it is a value or an error that names the argument.

No list of functions is kept here: the calls are those of the doctests, with one argument at a time replaced.
"""

import copy
import importlib
import inspect
import pkgutil
import warnings
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pytest

import estimators.federated
from estimators.federated.backend import Diverged
from estimators.federated.kinds import typed

# Compiled loops, twins that the tests call, and what sends functions to other processes, where those replaced here are none.
APART = ("kernels", "jax", "reference_backend", "kinds", "processes")


class Wrong:
    """An object of no class of ours."""


WRONG = {
    "None": None,
    "object": Wrong(),
    "class": Wrong,
    "function": len,
    "text": "x",
    "list": [],
    "list of objects": [Wrong()],
    "dict": {},
    "negative": -1,
    "half": 1.5,
    "NaN": float("nan"),
    "2^63": 2**63,
    "larger than any float": 10**400,
    "True": True,
}
STRANGE = ("None", "object", "class", "function", "text", "dict")  # never a number that another argument does not fit


def modules():
    for found in pkgutil.walk_packages(estimators.federated.__path__, "estimators.federated."):
        if not any(part in found.name for part in APART):
            yield importlib.import_module(found.name)


def names(argument, message):
    """Whether a message names an argument, whose plural the checks of its entries leave out."""
    return argument in message or argument.rstrip("s") in message


def test_no_wrong_argument_ends_in_a_bare_error(doctest_calls):
    entries, wrong = 0, []
    for label, (function, args, kwargs) in doctest_calls(modules(), made=True).items():
        signature = inspect.signature(function)
        bound = signature.bind(*args, **kwargs)
        if not inspect.isclass(function):
            bound.apply_defaults()
        for name in bound.arguments:
            kind = signature.parameters[name].kind
            if name in ("self", "cls") or kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
                continue
            entries += 1
            for how, value in WRONG.items():
                if (name, how) == ("state", "dict"):  # a KeyError says which key a state lacks that no `start` has made
                    continue
                changed = copy.deepcopy(bound)
                changed.arguments[name] = value
                with redirect_stdout(StringIO()), warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        function(*changed.args, **changed.kwargs)
                    except Diverged:
                        pass
                    except ValueError as error:
                        alike = type(value) is type(bound.arguments[name])
                        if how in STRANGE and not alike and not names(name, str(error)):
                            wrong.append(f"{label}({name}={how}) is not named: {error}")
                    except Exception as error:
                        wrong.append(f"{label}({name}={how}): {error!r}")
    assert not wrong, "\n".join(wrong)
    assert entries > 240


@pytest.mark.parametrize(
    ("annotation", "good", "bad"),
    [
        ("int", [3, 3.0, np.int8(3), np.array(3)], [True, 2**63, 1.5, "3", None, [3]]),
        ("float | None", [3, 0.5, None, np.inf], [True, "x", [0.5], 10**400]),
        ("str", ["x"], [None, 3]),
        ("Mapping[str, Any]", [{}], [None, [], "x"]),
        ("Sequence[float] | None", [[], (1,), None, np.ones(2)], [1, "x", {}, np.array(1)]),
        ("tuple[Any, Any]", [(1, 2), [1, 2]], [(1,), 1, "ab"]),
        ("Wrong", [Wrong(), type("Other", (Wrong,), {})()], [None, Wrong, 3]),
        ("Backend", [], [None, Wrong(), 3]),
        ("DTypeLike", [np.float32, "float64"], ["x", int, None]),
        ("Wrong | Sequence[Wrong]", [Wrong(), [Wrong()]], [None, 3]),
    ],
)
def test_what_annotations_ask_for(annotation, good, bad):
    def function(thing):
        return thing

    function.__annotations__["thing"] = annotation
    checked = typed(function)
    for value in good:
        assert checked(value) is value
    for value in bad:
        with pytest.raises(ValueError, match=r"^thing must be "):
            checked(thing=value)
