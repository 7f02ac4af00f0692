"""Reading a practitioner's file of 10^6 rows: seconds, and how many times what the bare csv reader takes.

Run with ``make bench``.  `fastest` takes turns, so that other load on the machine cancels.
"""

import csv
from time import perf_counter

import numpy as np
import pytest

from estimators.tables.client_table import read_client_table

ROWS = 10**6


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("tables"), np.random.default_rng(0)
    values, clients, counts = rng.normal(size=ROWS).tolist(), rng.integers(0, 50_000, ROWS), rng.integers(1, 50, ROWS)
    raw, summary = folder / "raw.csv", folder / "summary.csv"
    raw.write_text("client,value\n" + "".join(f"c{c},{x!r}\n" for c, x in zip(clients, values, strict=True)))
    rows = (f"client {i},{x!r},1.5,{n}\n" for i, (x, n) in enumerate(zip(values, counts, strict=True)))
    summary.write_text("client,mean,variance,n\n" + "".join(rows))
    return {"raw": raw, "summary": summary}


def bare(path):
    with open(path, newline="", encoding="utf-8") as file:
        for _ in csv.reader(file):
            pass


@pytest.mark.parametrize("name", ["raw", "summary"])
@pytest.mark.benchmark(group="client-table")
def test_read(benchmark, files, name):
    path = files[name]
    times = {"read": [], "bare": []}
    for _ in range(3):
        for key, call in (("bare", bare), ("read", read_client_table)):
            start = perf_counter()
            call(path)
            times[key].append(perf_counter() - start)
    found = {key: min(values) for key, values in times.items()}
    benchmark.extra_info.update(seconds=found["read"], ratio_to_csv_reader=found["read"] / found["bare"])
    benchmark.pedantic(read_client_table, args=(path,), rounds=1)
    print(name, benchmark.extra_info)
