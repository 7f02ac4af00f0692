"""The domain that a docstring states is the domain of the function, to the last bit of its ends.

No list of functions is kept here: the calls are those of the doctests, the domains those of the docstrings: "number > 0",
"numbers in [0, 1)", "whole number >= 2". The end itself is refused where it is open and taken where it is closed, and what
lies beyond it is refused, by the argument's name.
"""

import importlib
import inspect
import pkgutil
import re
import warnings

import numpy as np

import estimators

ROOMS = ("accounting", "closed_forms", "counts", "private", "server")
APART = ("kernels", "exact_noise", "exact_batches")  # machinery, whose arguments others have checked
ENTRY = re.compile(r"(?P<names>[A-Za-z]\w*(?:, [A-Za-z]\w*)*) : (?P<kind>[^;\n]*)")
LEAST = re.compile(r"(?P<whole>whole )?numbers? (?P<sign>>=?) (?P<low>\d+)(?![\w.])")
WITHIN = re.compile(r"numbers? in (?P<left>[\[(])(?P<low>\d+), (?P<high>\d+)(?P<right>[\])])")
BETWEEN = re.compile(r"numbers? strictly between (?P<low>\d+) and (?P<high>\d+)")


def modules():
    for found in pkgutil.walk_packages(estimators.__path__, "estimators."):
        if found.name.split(".")[1] in ROOMS and not found.name.endswith(APART):
            yield importlib.import_module(found.name)


def ends(kind):
    """The values at and beside the ends of a stated domain: (value, whether it belongs to it)."""
    if found := LEAST.search(kind):
        low, closed = float(found["low"]), found["sign"] == ">="
        yield low, closed
        yield low - 1 if found["whole"] else np.nextafter(low, -np.inf), False
    elif found := WITHIN.search(kind):
        low, high = float(found["low"]), float(found["high"])
        yield from ((low, found["left"] == "["), (np.nextafter(low, -np.inf), False))
        yield from ((high, found["right"] == "]"), (np.nextafter(high, np.inf), False))
    elif found := BETWEEN.search(kind):
        yield from ((float(found["low"]), False), (float(found["high"]), False))


def stated(function):
    """The domains that a docstring states, by argument."""
    text = (inspect.getdoc(function) or "").partition("\nReturns\n")[0]
    return {name: kind for entry in ENTRY.finditer(text)
            for name, kind in ((name, entry["kind"]) for name in entry["names"].split(", "))}  # fmt: skip


def changed_to(value, end):
    """The value of a call with an end of the domain in its, or its first, place; None where it holds no numbers."""
    array = np.asarray(value)
    if isinstance(value, (bool, str)) or array.dtype.kind not in "iuf" or not array.size:
        return None
    array = array.astype(float)
    array.flat[0] = end
    if array.ndim:
        return array
    return int(end) if isinstance(value, (int, np.integer)) and end == int(end) else float(end)


def cases(doctest_calls):
    for label, (function, args, kwargs) in doctest_calls(list(modules()), made=True).items():
        if inspect.isclass(function) and hasattr(function, "fit"):
            continue  # its arguments are read by fit
        bound = inspect.signature(function).bind(*args, **kwargs)
        for name, kind in stated(function).items():
            for end, belongs in ends(kind) if name in bound.arguments else ():
                if (value := changed_to(bound.arguments[name], end)) is not None:
                    yield label, function, bound, name, value, belongs


def refused(function, bound, name, value, copied):
    """What is said of the argument by name, or None."""
    changed = copied(bound)
    changed.arguments[name] = value
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*changed.args, **changed.kwargs)
    except ValueError as error:
        return str(error) if re.search(rf"\b{name}\b", str(error)) else None
    except Exception as error:
        return f"{name}: {error!r}"
    return None


def test_the_ends_of_every_stated_domain(doctest_calls, copied):
    seen, wrong = 0, []
    for label, function, bound, name, value, belongs in cases(doctest_calls):
        seen += 1
        said = refused(function, bound, name, value, copied)
        if belongs and said is not None and re.match(rf"{name} must be\b", said):
            wrong.append(f"{label}({name}={value!r}) is refused, which its docstring allows: {said}")
        if not belongs and said is None:
            wrong.append(f"{label}({name}={value!r}) is taken, which its docstring does not allow")
    assert seen > 200, seen
    assert not wrong, "\n".join(wrong)
