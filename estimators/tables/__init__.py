"""Tables of clients: files, what their columns mean, and data sets that come with the package.

Belongs here: ``client_table`` (roles of columns, from rows to clients), ``table_file`` and ``table_arrow`` (CSV and
Parquet, with ``columns`` in common), ``datasets``. Does not belong here: models, and which model fits which table (``fit``).
"""

from typing import TYPE_CHECKING

from estimators.system.lazy import attach

if TYPE_CHECKING:
    from . import client_table, datasets, table_arrow, table_file

__all__ = ["client_table", "datasets", "table_arrow", "table_file"]
__getattr__, __dir__ = attach(__name__, {}, modules=__all__)
