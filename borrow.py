"""The door: `import borrow` offers what users need of all packages, and `borrow COMMAND` is its command line.

Belongs here: lazy imports, and what all commands share (exit status: 0 success, 2 bad input, 130 Ctrl-C, 143 SIGTERM; the
others are the command's).  Does not belong here: commands, which each package adds in its ``commands``; anything that
computes.

>>> import borrow
>>> borrow.evaluate("mrmtl:thm6.3", sigma2=1, n=10, sigma2_dp=0, tau2=0.1)["derived"]
1
"""

import argparse
import sys
from importlib import import_module

PACKAGES = ("theory", "figures")
"""Packages that have commands, in the order of the help; others add theirs as entry points ``borrow.commands``."""


def __getattr__(name):
    if name == "__all__":
        return [*import_module("estimators").__all__, *import_module("theory").__all__]
    for package in ("estimators", "theory"):
        if name in import_module(package).__all__:
            return getattr(import_module(package), name)
    raise AttributeError(f"module 'borrow' has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__getattr__("__all__")})


def commands():
    """Return the commands: {name: (help, "module:function" that adds the arguments to a parser)}."""
    from importlib.metadata import entry_points

    found = {}
    for package in PACKAGES:
        found |= import_module(f"{package}.commands").COMMANDS
    for entry in entry_points(group="borrow.commands"):
        found.setdefault(entry.name, (f"added by {entry.value.partition('.')[0]}", entry.value))
    return found


def parser_of(chosen):
    """Return the parser of the whole command line, with the arguments of the commands `chosen` only."""
    from estimators.system import console

    parser = argparse.ArgumentParser(
        prog="borrow", description="Verified formulas for personalised, private, federated estimation."
    )
    below = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, (words, place) in commands().items():
        command = below.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".")
        if name in chosen:
            module, _, function = place.partition(":")
            getattr(import_module(module), function)(command)
            console.read_numbers(command)
            command.set_defaults(parser=command)  # whose usage to show
    return parser


def main(argv=None):
    """Run the command line; returns the exit status."""
    from estimators.system import console
    from estimators.system.processes import Terminated, terminable

    argv = sys.argv[1:] if argv is None else list(map(str, argv))
    console.printable()
    try:
        parser = parser_of(argv[:1])
        arguments = console.parse(parser, argv)
        if not hasattr(arguments, "run"):
            parser.print_help()
            return 2
        with terminable():
            status = arguments.run(arguments)
            sys.stdout.flush()  # a full disk is an error before the exit status says success
            return status
    except BrokenPipeError:  # the reader of a pipe has seen enough
        console.discard()
        return 0
    except (ValueError, OSError) as error:
        print(f"borrow: {console.explain(error)}", file=sys.stderr)
        if isinstance(error, OSError) and error.strerror and not error.filename:
            console.discard()
        return 2
    except KeyboardInterrupt as stop:
        terminated = isinstance(stop, Terminated)
        why = "terminated" if terminated else "interrupted"
        print(f"\nborrow: {why}; what is finished is kept, the same command goes on", file=sys.stderr)
        return 143 if terminated else 130


if __name__ == "__main__":
    sys.exit(main())
