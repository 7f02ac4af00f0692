"""What the paper says, line by line, and which claims judge it or why none can: the parts, joined.

Belongs here: the text that was read, the order of the parts. Does not belong here: items, claims.
"""

from theory.papers.generative import inventory_learning
from theory.papers.generative.inventory_estimation import ESTIMATION
from theory.papers.generative.inventory_proofs import PROOFS

TEXT = "8261c1f4ceec7644"

ITEMS = (*ESTIMATION, *PROOFS, *inventory_learning.ITEMS)
