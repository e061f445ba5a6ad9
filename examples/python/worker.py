#!/usr/bin/env python3
"""A complete taskq worker in Python, with psycopg 3.

    worker.py QUEUE WORKER      the server: PGHOST, PGPORT, PGDATABASE, PGUSER

A task's payload is {"n": 17}; its square is written into done_work.  "ms" makes
it take that long, "fail" makes it fail."""
import secrets, signal, sys, threading, time
import psycopg
from psycopg.types.json import Jsonb

queue, name = sys.argv[1:]
process = secrets.randbits(53)  # distinguishes us from another process of our name
stop = threading.Event()        # take no more tasks
finished = threading.Event()    # no more heartbeats either
dropped = threading.Event()     # the task in hand is cancelled, or lost
task_id = None                  # the task in hand
conn = None                     # the main thread's connection


def connect(keep):
    """keep: we continue with our tasks.  Otherwise our tasks are requeued immediately."""
    # behind a pooler in transaction mode also: prepare_threshold=None
    c = psycopg.connect("", autocommit=True, application_name=name)
    c.execute("SELECT taskq_register(%s, ARRAY[%s], keep => %s, incarnation => %s)",
              (name, queue, keep, process))
    return c


def heartbeats():
    """Send heartbeats, in a thread with its own connection, however long a task takes."""
    beats, pause = None, 0
    while not finished.wait(pause):
        try:
            beats = beats or connect(keep=True)
            cancel, drain, pause = beats.execute(
                "SELECT cancel, drain, extract(epoch FROM next_in)::float8"
                " FROM taskq_heartbeat(%s, %s)", (name, process)).fetchone()
            if task_id in cancel:
                dropped.set()
            if drain:           # no more tasks for us
                stop.set()
        except psycopg.Error as error:
            if error.sqlstate == "TQ007":   # our task was requeued: no heartbeat in
                (dropped if beats else stop).set()  # time, or another has our name
            beats, pause = None, 0.2        # connect and register again


def transaction(work):
    """Call work(connection) in a transaction, again until the answer is known."""
    global conn
    for last in iter(stop.is_set, None):
        try:
            conn = conn or connect(keep=task_id is not None)
            with conn.transaction():
                return work(conn)
        except psycopg.OperationalError as error:
            if error.sqlstate in ("40001", "40P01"):
                continue        # a conflict with others: repeat it
            if not (error.sqlstate or "08000").startswith(("08", "57P")):
                raise
            # It may have been committed.  Repeat it: if a claim's answer was lost,
            # registering again requeues its task, and no task ends twice.
            print(f"{name}: connection lost: {error}", file=sys.stderr)
            if conn is None and last and task_id is None:
                sys.exit(1)     # no server, so we cannot deregister
            conn = None
            time.sleep(0.2)


def compute(payload):
    """The work itself, here mostly waiting.  Yours checks dropped now and then."""
    if payload.get("fail"):
        raise RuntimeError("told to fail")
    if dropped.wait(payload.get("ms", 0) / 1000):
        raise RuntimeError("cancelled")
    return payload["n"] ** 2


def do_task(token, payload):
    try:
        square = compute(payload)

        def complete(c):        # first: if the task is lost, write nothing
            c.execute("SELECT taskq_complete(%s, %s, %s)",
                      (task_id, token, Jsonb({"square": square})))
            c.execute("INSERT INTO done_work VALUES (%s, %s, %s, %s)",
                      (task_id, payload["n"], square, name))
        transaction(complete)
    except Exception as error:
        retryable = not isinstance(error, KeyError)     # no "n": never retry
        transaction(lambda c: c.execute("SELECT taskq_fail(%s, %s, %s, retryable => %s)",
                                        (task_id, token, repr(error), retryable)))


signal.signal(signal.SIGTERM, lambda *_: stop.set())
transaction(lambda c: None)     # connect and register
beating = threading.Thread(target=heartbeats, daemon=True)
beating.start()
idle = 0.1
while not stop.is_set():
    try:
        row = transaction(lambda c: c.execute(
            "SELECT task_id, token, payload FROM taskq_claim(%s, %s, incarnation => %s)",
            (queue, name, process)).fetchone())
        if row:
            dropped.clear()
            task_id, idle = row[0], 0.1
            do_task(*row[1:])
        else:                   # an idle worker polls at increasing intervals
            idle = min(2 * idle, 1) if not stop.wait(idle) else idle
    except psycopg.Error as error:
        # TQ001: it is no longer ours; TQ007: the heartbeats register us again
        if error.sqlstate not in ("TQ001", "TQ007"):
            raise
    task_id = None
finished.set()
beating.join(5)
transaction(lambda c: c.execute("SELECT taskq_deregister(%s, %s)", (name, process)))
