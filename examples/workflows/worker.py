#!/usr/bin/env python3
"""A worker for the steps of order.json in Python, with psycopg 3.

    worker.py QUEUE WORKER      the server: PGHOST, PGPORT, PGDATABASE, PGUSER

It knows handlers, not workflows: what comes before a step and after it is the
definition's business.  How a worker registers, beats while a task takes long and
bears lost connections is shown in examples/python/worker.py; this one holds each
step for the queue's lease."""
import signal, sys, threading
import psycopg
from psycopg.rows import namedtuple_row
from psycopg.types.json import Jsonb

stop = threading.Event()


class Refused(Exception):
    """Another attempt would not help."""


def check_order(conn, step):
    if step.input["quantity"] < 1:
        raise Refused("nothing was ordered")
    return {"order": step.input["order"]}


def reserve(conn, step):
    return {"reserved": step.input["quantity"] <= step.config["most"]}


def authorize_order(conn, step):
    return {"authorized": step.input["amount"] <= step.config["most"]}


def pack(conn, step):
    return {"parcel": f"parcel {step.input['order']} of {step.input['quantity']}"}


def ship(conn, step):
    parcel = step.dependency_results["pack"]["parcel"]
    conn.execute("INSERT INTO example.shipment VALUES (%s, %s)", (step.input["order"], parcel))
    return {"outcome": "shipped", "parcel": parcel}


def refuse(conn, step):
    return {"outcome": "refused"}


def notify_customer(conn, step):
    results = step.dependency_results       # of the branch that was taken
    return {"order": step.input["order"], **(results.get("ship") or results["refuse"])}


HANDLERS = {f.__name__: f for f in (check_order, reserve, authorize_order, pack, ship, refuse, notify_customer)}


def do_step(conn, step):
    try:
        with conn.transaction():            # the handler's writes, and the step's end
            result = HANDLERS[step.handler](conn, step)
            conn.execute("SELECT taskq_complete(%s, %s, %s)", (step.task_id, step.token, Jsonb(result)))
    except psycopg.Error as error:
        if error.sqlstate == "TQ001":       # another worker has it by now
            return
        fail(conn, step, error, True)
    except Exception as error:
        fail(conn, step, error, not isinstance(error, (Refused, KeyError)))


def fail(conn, step, error, retryable):
    conn.execute("SELECT taskq_fail(%s, %s, %s, retryable => %s)", (step.task_id, step.token, repr(error), retryable))


def main(queue, name):
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with psycopg.connect("", autocommit=True, application_name=name, row_factory=namedtuple_row) as conn:
        while not stop.is_set():
            step = conn.execute("SELECT * FROM taskq_claim(%s, %s, wait => '1 s')", (queue, name)).fetchone()
            if step:
                do_step(conn, step)


main(*sys.argv[1:])
