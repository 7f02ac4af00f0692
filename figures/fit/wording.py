"""What models say about their arguments, in the words of who types `borrow fit`.

Belongs here: from names of arguments to options and columns.  What is said is in the models and in ``report``.
"""

import re

__all__ = ["in_flags"]

COLUMNS = {
    "means": {"covariates": "--covariates"},
    "binomial": {"x": "successes", "n": "trials"},
    "poisson": {"x": "count"},
    "regression": {"Xs": "the table", "Ys": "the target", "groups": "--group", "shared": "--shared"},
}
"""Columns by the names that models have for them, for each kind of data."""


def in_flags(message, flags, options, data, covariates=()):
    """Return `message` with options of the command line instead of arguments of Python.

    Parameters
    ----------
    message : str, of an error or a warning.
    flags : names that are options of the command line; options : other arguments of the model, given by --with.
    data : kind of the table; covariates : names of its covariates or features.

    >>> in_flags("tau2 must be given for prior='fixed' and left out otherwise", ["prior", "tau2"], [], "means")
    '--tau2 must be given for --prior fixed and left out otherwise'
    >>> in_flags("x must hold two clients; give alpha", [], ["alpha"], "binomial")
    'successes must hold two clients; give --with alpha=VALUE'
    """
    message = re.sub(r"(?:covariates|Xs)\[:, (\d+)\]", lambda match: repr(covariates[int(match[1])]), message)
    spelt = {**{name: f"--with {name}" for name in options}, **{name: f"--{name}" for name in flags}}
    first, space, rest = message.partition(" ")
    message = COLUMNS.get(data, {}).get(first, first) + space + rest
    if not spelt:
        return message
    names = rf"\b(?:{'|'.join(map(re.escape, spelt))})\b"

    def with_value(match):
        joint = " " if match[1] in flags else "="
        return spelt[match[1]] + joint + match[2].strip("'")

    def alone(match):
        return re.sub(names, lambda name: spelt[name[0]] + ("" if name[0] in flags else "=VALUE"), match[0])

    message = re.sub(rf"({names})=('[^']*'|[-+]?\w[\w.+-]*\w|\w)", with_value, message)
    # By itself a name can be prose ("the prior"), but not where a message begins or says what to give.
    several = rf"{names}(?:(?:, or |, | and | or ){names})*"
    begins = rf"^{several}(?= (?:must|needs?|has|have|holds|differs|are)\b)"
    return re.sub(rf"{begins}|(?<=\bgive ){several}|(?<=\braise ){several}", alone, message)
