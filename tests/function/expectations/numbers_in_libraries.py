"""Numbers passed to Python's library, parts of which take exact Python numbers only."""

from __future__ import annotations

import csv
import datetime
import decimal
import functools
import io
import json
import pickle
import pprint
import random
import sqlite3
import statistics
import struct
import uuid
from fractions import Fraction

import numpy as np

from tests.function.expectations.exact_numbers import TWO, each, x
from tests.function.expectations.program import Steps, Trace, program

# mypy: disable-error-code="no-untyped-def"


@program(traces=2)
def statistics_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * statistics.mean([k, 1]), statistics.stdev([k, 1, 7]), statistics.fmean([k, 2])

    yield from each(f, TWO)


@program(traces=2)
def json_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x, json.dumps(k), json.dumps({"a": [k, {"b": k}]}), json.dumps({k: (k,)})

    yield from each(f, TWO)


@program(traces=2)
def json_with_a_default_for_what_it_does_not_know(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x, json.dumps({"a": k}, default=lambda unknown: "unknown")

    yield from each(f, TWO)


@program(traces=2)
def json_of_a_config(trace: Trace) -> Steps:
    config = {"rate": 0.5, "sizes": [1, 2], "inner": {"k": 3}}

    @trace
    def f(x):
        return json.dumps(config), x * config["rate"], x * config["sizes"][0]

    yield f(x)
    config["rate"] = 0.25
    yield f(x)
    yield config


@program(traces=2)
def decimals_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        two = decimal.Decimal(2)
        return x, str(decimal.Decimal(k)), str(two * k), str(k * two), k < two, two < k

    yield from each(f, TWO)


@program(traces=2)
def a_handler_for_what_decimals_refuse(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        try:
            return x * float(decimal.Decimal(k))
        except TypeError:
            return x

    yield from each(f, TWO)


@program(traces=2)
def durations_of_numbers(trace: Trace) -> Steps:
    day = datetime.timedelta(days=1)

    @trace
    def f(x, k):
        made = datetime.timedelta(seconds=k), k * day, day * k, day / k
        return x, [str(one) for one in made], datetime.date(2020, k, 1).isoformat()

    yield from each(f, TWO)


@program(traces=3, reports=("random.Random", "default_rng"))
def generators_seeded_by_a_number(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x * random.Random(k).random()

    yield from each(f, (2, -5))
    g = trace(lambda x, k: x * np.random.default_rng(k).random())
    yield g(x, 7)


@program(traces=2)
def fractions_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        half = Fraction(1, 2)
        return x, str(Fraction(k, 3)), str(half + k), str(k * half), str(Fraction(k))

    yield from each(f, TWO)


@program(traces=2)
def numbers_in_files_and_records(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        out = io.StringIO()
        csv.writer(out).writerow([k, "a", k * 2])
        return x, out.getvalue(), struct.pack("if", k, k), pickle.loads(pickle.dumps([k]))

    yield from each(f, TWO)


@program(traces=2)
def numbers_in_a_database(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        base = sqlite3.connect(":memory:")
        number = base.execute("select ? + 1", (k,)).fetchone()[0]
        base.close()
        return x * number

    yield from each(f, TWO)


@program(traces=2)
def texts_that_libraries_make_of_numbers(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x, pprint.pformat({"a": k}), str(uuid.UUID(int=k)), f"{k:5.2f}|{k:d}"

    yield from each(f, TWO)


@program(traces=2)
def modules_imported_in_the_function(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        import json as j
        from decimal import Decimal

        return x, j.dumps([k], default=str), str(Decimal(k))

    yield from each(f, TWO)


@program(traces=2)
def a_method_and_a_helper_use_decimals(trace: Trace) -> Steps:
    class Schedule:
        base = 2

        def rate(self, k):
            return float(decimal.Decimal(self.base) * decimal.Decimal(k))

    def text(k):
        return len(json.dumps({"v": k}))

    schedule = Schedule()

    @trace
    def f(x, k):
        return x * schedule.rate(k), x * text(k), (lambda q: str(decimal.Decimal(q)))(k)

    yield from each(f, TWO)


@program(traces=2, reports=("random.Random",))
def a_list_of_numbers_is_shuffled(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        items = [k, 7, 8, 9]
        random.Random(0).shuffle(items)
        return x, items

    yield from each(f, TWO)


@program(traces=2)
def a_partial_of_a_library_function(trace: Trace) -> Steps:
    @trace
    def f(x, k):
        return x, str(functools.partial(decimal.Decimal, k)()), str(datetime.timedelta(*[k, 1]))

    yield from each(f, TWO)
