#!/usr/bin/env python3
"""A leader among several processes, with psycopg 3.

    leader.py NAME          the server: PGHOST, PGPORT, PGDATABASE, PGUSER

The process that holds the document "leader" leads.  Its lease is short and is
renewed, so that another process follows soon when the leader dies or is cut off.  A
leader that was frozen does not know that it no longer leads; what it does then is
refused all the same, since each of its actions depends on the document in the
version that it has seen.  A leader that is frozen during an action keeps the others
waiting, until the server ends its session; without a session a process ends, and is
started again.  The actions here are rows of the table leader_act (name, version)."""
import signal, sys, time
import psycopg
from psycopg.types.json import Jsonb

LEASE = 1.0         # seconds
name = sys.argv[1]
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(True))


def lead(conn):
    """Claim the document, or renew the claim; its version, or None if another process has it."""
    try:
        row = conn.execute("SELECT doc_id, version FROM taskq_claim_docs(%s, 'election', 'leader', %s * interval '1 s')",
                           (name, LEASE)).fetchone()
    except psycopg.Error as error:
        if error.sqlstate != "TQ010":
            raise
        return None
    if row is None:         # the document does not exist yet
        conn.execute("SELECT FROM taskq_change(%s, doc_adds => %s)",
                     (name, Jsonb([{"namespace": "election", "key": "leader", "skip_existing": True}])))
    return row


def act(conn, doc_id, version):
    """Something that only a leader may do, and the proof that we are it, in one transaction."""
    with conn.transaction():
        conn.execute("SELECT FROM taskq_change(%s, doc_updates => %s)",
                     (name, Jsonb([{"doc_id": doc_id, "version": version, "lease": f"{LEASE} s"}])))
        conn.execute("INSERT INTO leader_act (name, version) VALUES (%s, %s)", (name, version))


with psycopg.connect("", autocommit=True, application_name=name) as conn:
    conn.execute("SELECT set_config('idle_in_transaction_session_timeout', %s, false)", (f"{2 * LEASE} s",))
    while not stop:
        seen = lead(conn)
        if seen is None:
            time.sleep(LEASE / 4)
            continue
        doc_id, version = seen
        while not stop:
            try:
                act(conn, doc_id, version)
                version += 1
            except psycopg.Error as error:
                if error.sqlstate != "TQ010":
                    raise
                break       # another process leads
            time.sleep(LEASE / 20)
    conn.execute("SELECT FROM taskq_claim_docs(%s, 'election', 'leader', '0') WHERE EXISTS"
                 " (SELECT FROM taskq.documents WHERE key = 'leader' AND worker = %s)", (name, name))
