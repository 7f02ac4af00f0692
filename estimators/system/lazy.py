"""Fronts of packages: public names that are loaded at first use, so that importing a package costs next to nothing.

Belongs here: `attach`, which every such ``__init__`` calls.  Does not belong here: the names themselves; a front lists them
in ``__all__`` and, for type checkers, imports them under ``TYPE_CHECKING``.
"""

import sys
from importlib import import_module

__all__ = ["attach"]


def attach(package, homes, modules=()):
    """``__getattr__`` and ``__dir__`` of a package that loads its public names at first use.

    Parameters
    ----------
    package : ``__name__`` of the package.
    homes : dict from a module of the package to the names that are public from there, separated by spaces.
    modules : names of modules that are public themselves; those in `homes` are passed over.

    >>> find, names = attach("estimators.federated.data", {"federation": "Client Examples"}, modules=("silos",))
    >>> find("Client").__module__, find("silos").__name__
    ('estimators.federated.data.federation', 'estimators.federated.data.silos')
    >>> {"Client", "Examples", "silos"} <= set(names())
    True
    """
    home = {name: module for module, names in homes.items() for name in names.split()}

    def __getattr__(name):
        if name in home:
            return getattr(import_module(f"{package}.{home[name]}"), name)
        if name in modules:
            return import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*vars(sys.modules[package]), *modules, *home})

    return __getattr__, __dir__
