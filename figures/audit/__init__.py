"""`borrow audit`: what an adversary proves against each mechanism, beside what it claims; and against a mechanism of yours.

Belongs here: the command (``command``).  Does not belong here: audits (``estimators.private.audit_cases`` of releases,
``estimators.federated.audit_cases`` of training), the picture of them (``figures.privacy_audit``).
"""
