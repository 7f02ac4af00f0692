"""`borrow fit`: a practitioner's table in, better estimates for every client out.

Belongs here: the command, in four steps with a module each: ``command`` (options, files, exit status), ``models`` (which
model goes with which data), ``outcome`` (what came out, as columns), ``report`` (as text).  ``private`` is the way through
clients' reports.  Does not belong here: reading tables (``estimators.tables.client_table``), the models, drawing
(``figures.shrinkage``).
"""
