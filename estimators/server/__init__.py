"""The server's side of a federation: whom to weigh how much, and how far clients differ.

Belongs here: ``server_weights``, ``robust_pca`` (noise of each client), ``variance_components``, ``strengths`` (how much
to personalise), ``federated_means`` (all of it as one model). Does not belong here: training (``federated``), the papers'
closed forms (``closed_forms.aggregation``, ``closed_forms.personalization``).
"""
