"""Tables of clients: files, what their columns mean, and data sets that come with the package.

Belongs here: ``client_table`` (roles of columns, from rows to clients), ``table_file`` and ``table_arrow`` (CSV and
Parquet, with ``columns`` in common), ``datasets``. Does not belong here: models, and which model fits which table (``fit``).
"""
