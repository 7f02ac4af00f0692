"""`borrow fit`: a practitioner's table in, better estimates for every client out.

Belongs here: the commands, ``command`` (options, files, exit status) with ``report`` (what came out, as text) and
``wording`` (errors in the words of the command line), and ``budget``, what private runs spent.  Does not belong here:
reading tables (``estimators.tables.client_table``), which model goes with which data and what came out
(``estimators.fit``), the models, drawing (``figures.shrinkage``).
"""
