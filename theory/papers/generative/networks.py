"""Section 4 on networks: whether descriptions of data and network fit their numbers, and what Table 1 shows.

Accuracies come out of training and are taken as printed; what is judged is arithmetic on them and on the settings.

Belongs here: MNIST, FEMNIST, the network, Table 1. Does not belong here: training itself, which the learning benchmark does.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Any

import sympy as sp

from theory.engine.claim import Claim
from theory.engine.derivation import Derivation
from theory.engine.domain import Variable
from theory.engine.exemption import Exempt
from theory.engine.registry import register
from theory.engine.tight import Tight

ARITHMETIC = Exempt(kind="arithmetic")

# --- Table 1 ---------------------------------------------------------------------------------------------------------

COLUMNS = ("MNIST 0.1", "FEMNIST 0.33", "FEMNIST 0.15")
TABLE1 = {  # test accuracy and the number behind its +-, in hundredths of a per cent
    "FedAvg": ((9293, 9), (9314, 15), (9218, 13)),
    "FedAvg+": ((9542, 25), (9381, 30), (9412, 26)),
    "AdaPeD": ((9853, 11), (9688, 29), (9655, 32)),
    "pFedMe": ((9783, 4), (9403, 61), (9495, 55)),
    "Per-FedAvg": ((9588, 27), (9328, 41), (9351, 31)),
    "QuPeD": ((9814, 39), (9611, 13), (9599, 8)),
    "Federated ML": ((9793, 33), (9483, 59), (9512, 18)),
}
DISTILLING = ("AdaPeD", "QuPeD", "Federated ML")
COLUMN = Variable("column", "choice", "column of Table 1: data and share of sampled clients", choices=COLUMNS)
READING = Variable(
    "reading",
    "choice",
    "means: printed accuracies are compared; intervals: the lower end of one with the upper end of the other",
    choices=("means", "intervals"),
    default="means",
)


def means_only(reading: str) -> Any:
    """The condition under which the comparisons of Table 1 hold."""
    return sp.true if reading == "means" else sp.false


def _lead(d: Derivation, better: tuple[str, ...], column: str, reading: str) -> Any:
    """Lowest accuracy of some methods minus the highest of all others."""
    at, reach = COLUMNS.index(column), int(reading == "intervals")
    lows = [TABLE1[name][at][0] - reach * TABLE1[name][at][1] for name in better]
    highs = [row[at][0] + reach * row[at][1] for name, row in TABLE1.items() if name not in better]
    low = d.say("Lowest of " + ", ".join(better) + ", in hundredths of a per cent:", sp.Integer(min(lows)))
    high = d.say("Highest of the others:", sp.Integer(max(highs)))
    return d.conclude("The lead in per cent:", (low - high) / sp.Integer(100))


def _best_derive(column: str, reading: str) -> Derivation:
    d = Derivation()
    _lead(d, ("AdaPeD",), column, reading)
    return d


def _distilling_derive(column: str, reading: str) -> Derivation:
    d = Derivation()
    _lead(d, DISTILLING, column, reading)
    return d


def _worst_pair(better: tuple[str, ...], column: str, reading: str) -> Any:
    """Smallest difference over all pairs of one of these and one other method."""
    i = COLUMNS.index(column)
    found = []
    for one, other in product(better, set(TABLE1) - set(better)):
        (a, e), (b, f) = TABLE1[one][i], TABLE1[other][i]
        found.append(Fraction(a - b, 100) - (Fraction(e + f, 100) if reading == "intervals" else 0))
    least = min(found)
    return sp.Rational(least.numerator, least.denominator)


def _best_oracle(column: str, reading: str) -> Any:
    return _worst_pair(("AdaPeD",), column, reading)


def _distilling_oracle(column: str, reading: str) -> Any:
    return _worst_pair(DISTILLING, column, reading)


register(
    Claim(
        id="generative:tab1:best",
        title="AdaPeD leads in every column of Table 1",
        place="Section 4, Table 1 and Results",
        statement="""AdaPeD consistently outperforms the other methods. Judged on the printed accuracies: its own minus the
            highest other one.""",
        latex=r"\text{We observe AdaPeD consistently outperforms other methods.}",
        kind="number",
        variables=(COLUMN, READING),
        examples=({"column": "MNIST 0.1"},),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_best_derive,
        oracle=_best_oracle,
        condition=means_only,
        condition_text="reading == means (the means are compared, whatever their +-)",
        counterexample={"column": "MNIST 0.1", "reading": "intervals"},
        tight=Tight(at={"column": "MNIST 0.1", "reading": "means"}, ratio="0"),
        not_computed=ARITHMETIC,
        not_simulated=ARITHMETIC,
        finding="AdaPeD's means are the highest, but on MNIST its interval and QuPeD's overlap.",
        unit="per cent",
        remark="""Leads of 0.39, 0.77 and 0.56 per cent. On FEMNIST the intervals do not overlap (0.35 and 0.16 apart), on
            MNIST they do, by 0.11. The text does not say what is behind the +-.""",
    )
)

register(
    Claim(
        id="generative:tab1:distillation",
        title="Methods that distil lead in every column of Table 1",
        place="Section 4, Table 1 and Results",
        statement="""Methods that use knowledge distillation perform better. Judged on the printed accuracies: the lowest of
            AdaPeD, QuPeD and Federated ML minus the highest of the others.""",
        latex=r"\text{It can be seen that methods that use knowledge distillation perform better}",
        kind="number",
        variables=(COLUMN, READING),
        examples=({"column": "MNIST 0.1"},),
        printed=lambda: sp.Integer(0),
        relation=">=",
        derive=_distilling_derive,
        oracle=_distilling_oracle,
        condition=means_only,
        condition_text="reading == means (the means are compared, whatever their +-)",
        counterexample={"column": "MNIST 0.1", "reading": "intervals"},
        tight=Tight(at={"column": "MNIST 0.1", "reading": "means"}, ratio="0"),
        not_computed=ARITHMETIC,
        not_simulated=ARITHMETIC,
        finding="The means are ordered as said, but all three leads are smaller than the +- of the methods compared.",
        unit="per cent",
        related=("generative:tab1:best",),
        remark="Leads of 0.10, 0.80 and 0.17 per cent, of Federated ML over pFedMe.",
    )
)

# --- FedEM -----------------------------------------------------------------------------------------------------------

RUN = Variable("clients", "choice", "clients in a round: all, of MNIST", choices=(50,))


def _fedem_derive() -> Derivation:
    d = Derivation()
    own, other = d.say("Accuracies of AdaPeD and FedEM:", (sp.Rational(9904, 100), sp.Rational(9890, 100)))
    return d.conclude("Their difference:", own - other)


register(
    Claim(
        id="generative:exp:fedem",
        title="Without privacy AdaPeD and FedEM are comparable",
        place="Section 4, Comparing to DP version of FedEM",
        statement="""On MNIST AdaPeD achieves 99.04 +- 0.11 and FedEM 98.90 +- 0.20 per cent; the performance is comparable.
            Judged: they differ by no more than both +- together.""",
        latex=r"99.04\pm 0.11\%\text{ and FedEM achieves }98.90\pm 0.20\%",
        kind="number",
        variables=(RUN,),
        examples=({"clients": 50},),
        printed=lambda: sp.Rational(11, 100) + sp.Rational(20, 100),
        relation="<=",
        derive=_fedem_derive,
        oracle=lambda: sp.Rational(str(Fraction("99.04") - Fraction("98.90"))),
        tight=Tight(at={"clients": 50}, ratio="31/14"),
        not_computed=ARITHMETIC,
        not_simulated=ARITHMETIC,
        unit="per cent",
    )
)

# --- data ------------------------------------------------------------------------------------------------------------

AUTHORS = Variable("authors", "choice", "authors of a client's data", choices=(3,))


def _writers_derive(authors: int) -> Derivation:
    d = Derivation()
    writers = d.say("Writers:", sp.Integer(198))
    return d.conclude("Clients with that many of them each:", writers / authors)


def _writers_oracle(authors: int) -> Any:
    """Deal the writers out."""
    return sp.Integer(sum(1 for first in range(0, 198, authors) if first + authors <= 198))


register(
    Claim(
        id="generative:exp:writers",
        title="Clients and writers of FEMNIST",
        place="Section 4, Experiment setting",
        statement="With 198 writers and 3 authors for each client there are m = 66 clients.",
        latex=r"m=66\text{ for FEMNIST; a subset of 198 writers so that each client has access to data from 3 authors}",
        kind="number",
        variables=(AUTHORS,),
        examples=({"authors": 3},),
        printed=lambda: sp.Integer(66),
        derive=_writers_derive,
        oracle=_writers_oracle,
        not_computed=ARITHMETIC,
        not_simulated=ARITHMETIC,
        unit="clients",
    )
)

SHARES = {  # clients, quoted share of sampled ones, half a unit of its last digit
    "MNIST 0.1": (50, sp.Rational(1, 10), sp.Rational(1, 20)),
    "FEMNIST 0.33": (66, sp.Rational(33, 100), sp.Rational(1, 200)),
    "FEMNIST 0.15": (66, sp.Rational(15, 100), sp.Rational(1, 200)),
    "FEMNIST 1/3": (66, sp.Rational(1, 3), sp.Integer(0)),
}
SHARE = Variable("share", "choice", "data and quoted share of sampled clients", choices=tuple(SHARES))


def _sampled_derive(share: str) -> Derivation:
    d = Derivation()
    clients, quoted, _ = SHARES[share]
    number = d.say("Nearest whole number of sampled clients:", sp.floor(clients * quoted + sp.Rational(1, 2)))
    return d.conclude("Its share differs from the quoted one by", sp.Abs(number / clients - quoted))


def _sampled_oracle(share: str) -> Any:
    """Try every number of clients."""
    clients, quoted, _ = SHARES[share]
    return min(abs(sp.Rational(k, clients) - quoted) for k in range(clients + 1))


register(
    Claim(
        id="generative:exp:sampled",
        title="Shares of sampled clients",
        place="Section 4, Experiment setting, Table 1, DP-AdaPeD with local finetuning",
        statement="""Shares 0.1 of 50 clients and 0.33, 0.15 and 1/3 of 66 belong to whole numbers of clients. Judged: the
            nearest one rounds to the quoted share.""",
        latex=r"\frac{K}{n}=0.1,\ \frac{K}{n}=0.33,\ \frac{K}{n}=0.15;\ 1/3\text{ client sampling}",
        kind="number",
        variables=(SHARE,),
        examples=({"share": "FEMNIST 0.33"},),
        printed=lambda share: SHARES[share][2],
        relation="<=",
        derive=_sampled_derive,
        oracle=_sampled_oracle,
        tight=Tight(at={"share": "FEMNIST 0.33"}, ratio="3/2"),
        not_computed=ARITHMETIC,
        not_simulated=ARITHMETIC,
        unit="share",
        remark="K = 5, 22, 10 and 22; 0.33 and 1/3 are one setting. Table 1 heads its columns with K/n, where K/m is meant.",
    )
)

ITERATIONS = 60
LOCAL = Variable("n", "choice", "training samples of a client", choices=tuple(range(203, 337)))


def _iterations_derive(n: int) -> Derivation:
    d = Derivation()
    size = sp.Rational(n, ITERATIONS)
    near = d.say("Batch sizes around n/60:", tuple(sp.Integer(b) for b in (sp.floor(size), sp.floor(size) + 1)))
    counts = d.say("Iterations of an epoch with these, without and with what is left over:",
                   tuple(f(sp.Rational(n) / b) for b in near for f in (sp.floor, sp.ceiling)))  # fmt: skip
    return d.conclude("The nearest differs from 60 by", min(sp.Abs(c - ITERATIONS) for c in counts))


def _iterations_oracle(n: int) -> Any:
    """Cut an epoch into batches of every size, and count them with and without a shorter last one."""
    found = []
    for batch in range(1, n + 1):
        whole, rest = divmod(n, batch)
        found += [abs(whole - ITERATIONS), abs(whole + bool(rest) - ITERATIONS)]
    return sp.Integer(min(found))


def _cut(n: int) -> Any:
    return sp.true if 237 <= n <= 243 or 296 <= n <= 304 else sp.false


register(
    Claim(
        id="generative:exp:iterations",
        title="Sixty iterations in an epoch of every client",
        place="Section 4, Experiment setting",
        statement="""The batch size varies so that each epoch has 60 iterations, with 203 to 336 training samples per client.
            Judged: some batch size gives 60 batches, with or without a shorter last one.""",
        latex=r"""\text{number of training samples is between 203-336; vary the batch size so that each epoch consists of 60
            iterations}""",
        kind="number",
        variables=(LOCAL,),
        examples=({"n": 240},),
        printed=lambda: sp.Integer(0),
        derive=_iterations_derive,
        oracle=_iterations_oracle,
        condition=_cut,
        condition_text="237 <= n <= 243 or 296 <= n <= 304 (batches of 4 or of 5 samples)",
        counterexample={"n": 203},
        not_computed=ARITHMETIC,
        not_simulated=ARITHMETIC,
        finding="No batch size cuts most of the stated data sets into 60 batches.",
        unit="iterations",
        assumptions=("all batches of a client have one size, but for the last",),
        remark="16 of the 134 sizes can be cut so; 203 samples give 50, 51, 67 or 68 batches.",
    )
)

POOL = Variable("pooling", "choice", "side of the squares that are pooled after each convolution; 1: none", choices=(2, 1))


def _width_derive(pooling: int) -> Derivation:
    d, side = Derivation(), sp.Integer(28)
    for filters in (6, 16):
        side = d.say(f"Side after a convolution with {filters} filters of 5 x 5 and pooling:", (side - 4) / pooling)
    return d.conclude("Values that the 16 filters hand on:", 16 * side**2)


def _width_oracle(pooling: int) -> Any:
    """Slide windows over a row of pixels, twice."""
    row = list(range(28))
    for _ in range(2):
        row = [k for k in range(len(row)) if k + 5 <= len(row)]
        row = row[::pooling]
    return sp.Integer(16 * len(row) * len(row))


register(
    Claim(
        id="generative:exp:network",
        title="Width of the network's first full layer",
        place="Section 4.1, Federated Setting",
        statement="""After convolutions with 6 and 16 filters of size 5 x 5 the first fully connected layer takes 256 values
            of an image of 28 x 28.""",
        latex=r"""\text{convolutional layers of filter size }5\times 5\text{ with 6 and 16 filters; fully connected layers
            of dimension }256\times 120""",
        kind="number",
        variables=(POOL,),
        examples=({"pooling": 2},),
        printed=lambda: sp.Integer(256),
        derive=_width_derive,
        oracle=_width_oracle,
        condition=lambda pooling: sp.true if pooling == 2 else sp.false,
        condition_text="pooling == 2 (squares of 2 x 2 are pooled after each convolution, which the text does not say)",
        counterexample={"pooling": 1},
        not_computed=ARITHMETIC,
        not_simulated=ARITHMETIC,
        finding="The stated dimensions need a pooling that the description leaves out.",
        unit="values",
        remark="""Without pooling it would take 6400. The last layer, 84 x 10, knows ten classes: the digits of FEMNIST's 62
            labels, as some 270 samples of three writers also suggest.""",
    )
)

TIMES = Variable("elections", "choice", "presidential elections from 2000 to 2020", choices=(6,))


def _folds_derive(elections: int) -> Derivation:
    d = Derivation()
    held = d.say("Elections that are tested on at a time, of those less the five for training:", sp.Integer(elections) - 5)
    return d.conclude("Runs until each has been tested on once:", elections / held)


def _folds_oracle(elections: int) -> Any:
    """List the years and leave one out at a time."""
    years = range(2000, 2021, 4)
    return sp.Integer(len({tuple(y for y in years if y != left) for left in years}))


register(
    Claim(
        id="generative:exp:elections:folds",
        title="Folds of the county experiment",
        place="Section 4, political tendencies on county level",
        statement="""Given six elections, five for training and one for testing, 1-fold cross validation was done, averaged
            over 6 runs. Judged: the number of folds.""",
        latex=r"\text{Given 6 election data we did 1-fold cross validation.}",
        kind="number",
        variables=(TIMES,),
        examples=({"elections": 6},),
        printed=lambda: sp.Integer(1),
        derive=_folds_derive,
        oracle=_folds_oracle,
        corrected=lambda: sp.Integer(6),
        corrected_text="6-fold (one election left out at a time)",
        slip="1 for 6",
        counterexample={"elections": 6},
        not_computed=ARITHMETIC,
        not_simulated=ARITHMETIC,
        finding="What is described is cross validation with six folds, not one.",
        unit="folds",
    )
)
