#!/usr/bin/env python3
"""Counts words of many files with many workers: map and reduce, with psycopg 3.

    word_count.py begin FILE...     makes a task for each file
    word_count.py work WORKER       works until nothing is left to do
    word_count.py result            prints how often each word comes, like
                                    uniq -c, when all of it is done

The server: PGHOST, PGPORT, PGDATABASE, PGUSER.  Nothing is kept outside of it.
Each step is one taskq_change: the task in hand is deleted, and what came out of
it is added, or nothing is.  So a worker can be killed at any moment: its task is
handed out again when its lease has ended, and what it had not committed was
never there."""
import os, re, sys
from collections import Counter
import psycopg
from psycopg.types.json import Jsonb

PARTS = 4           # number of documents for the words
LEASE = "2 s"


def change(conn, worker, **lists):
    """One change; False when something else has happened to what it names."""
    names = list(lists)
    call = ", ".join(f"{name} => %s" for name in names)
    try:
        conn.execute(f"SELECT FROM taskq_change(%s, {call})",
                     (worker, *(Jsonb(lists[name]) for name in names)))
        return True
    except psycopg.Error as error:
        if error.sqlstate != "TQ010":
            raise
        return False


def begin(conn, files):
    """All or nothing, so it can be repeated if the outcome is unknown."""
    for queue in ("map", "reduce"):
        conn.execute("SELECT taskq_create_queue(%s, '{\"retention\": \"none\"}') WHERE NOT EXISTS"
                     " (SELECT FROM taskq.queues WHERE queue = %s)", (queue, queue))
    change(conn, "begin",
           adds=[{"queue": "map", "payload": os.path.abspath(file), "reference": file,
                  "skip_existing": True} for file in files],
           doc_adds=[{"namespace": "reduce", "key": "words", "secondary_key": str(part),
                      "content": {}, "skip_existing": True} for part in range(PARTS)])


def part_of(word):
    return sum(word.encode()) % PARTS


def map_file(conn, worker, task):
    """A file becomes a list of words for each part."""
    with open(task["payload"], encoding="utf-8", errors="replace") as file:
        words = Counter(re.findall(r"[a-z0-9_]+", file.read().lower()))
    parts = {}
    for word, count in words.items():
        parts.setdefault(part_of(word), {})[word] = count
    return change(conn, worker,
                  deletes=[{"task_id": task["task_id"], "version": task["version"]}],
                  adds=[{"queue": "reduce", "payload": {"part": part, "words": words}}
                        for part, words in parts.items()])


def reduce_part(conn, worker, task):
    """A list of words is added to the document of its part."""
    part = str(task["payload"]["part"])
    doc_id, version, content = conn.execute(
        "SELECT doc_id, version, content FROM taskq.documents"
        " WHERE namespace = 'reduce' AND key = 'words' AND secondary_key = %s", (part,)).fetchone()
    total = Counter(content)
    total.update(task["payload"]["words"])
    return change(conn, worker,
                  deletes=[{"task_id": task["task_id"], "version": task["version"]}],
                  doc_updates=[{"doc_id": doc_id, "version": version, "content": total}])


def work(conn, worker):
    steps = {"map": map_file, "reduce": reduce_part}
    while True:
        found = conn.execute(
            "SELECT task_id, version, queue, payload FROM taskq_claim_one(%s, '{map,reduce}', %s, wait => '1 s')",
            (worker, LEASE)).fetchone()
        if found is None:
            if left(conn) == 0:
                return
            continue
        task = dict(zip(("task_id", "version", "queue", "payload"), found))
        # another version: the document has changed, and we read it again;
        # or our lease has expired, and another worker has the task
        while not steps[task["queue"]](conn, worker, task):
            if not conn.execute("SELECT FROM taskq.tasks WHERE task_id = %s AND version = %s",
                                (task["task_id"], task["version"])).fetchone():
                break


def left(conn):
    return conn.execute("SELECT count(*) FROM taskq.tasks WHERE queue IN ('map', 'reduce')").fetchone()[0]


def result(conn):
    if left(conn) > 0:
        sys.exit("there is work left")
    words = Counter()
    for (content,) in conn.execute("SELECT content FROM taskq.documents WHERE namespace = 'reduce'"):
        words.update(content)
    for word in sorted(words):
        print(f"{words[word]:7d} {word}")


with psycopg.connect("", autocommit=True) as conn:
    if sys.argv[1:2] == ["begin"] and len(sys.argv) > 2:
        begin(conn, sys.argv[2:])
    elif sys.argv[1:2] == ["work"] and len(sys.argv) == 3:
        work(conn, sys.argv[2])
    elif sys.argv[1:] == ["result"]:
        result(conn)
    else:
        sys.exit(__doc__)
