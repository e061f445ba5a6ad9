"""Writes test/sql/schedule_times.sql: planned times of schedules over changes
of daylight saving, month ends and leap days, computed with Python's zoneinfo.

usage: python3 test/schedule/times.py > test/sql/schedule_times.sql
"""
from calendar import monthrange
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

UTC = timezone.utc
MINUTE = timedelta(minutes=1)


def instant(local, zone):
    """The second instant of a time that exists twice; for one that does not
    exist, the instant of the change of the clocks."""
    at = local.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if at.astimezone(zone).replace(tzinfo=None) == local:
        return at
    at = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    before = (at - timedelta(hours=3)).astimezone(zone).utcoffset()
    while (at - MINUTE).astimezone(zone).utcoffset() != before:
        at -= MINUTE
    return at


def later(start, months, days):
    month = start.month - 1 + months
    year, month = start.year + month // 12, month % 12 + 1
    day = min(start.day, monthrange(year, month)[1])
    return start.replace(year=year, month=month, day=day) + timedelta(days=days)


CASES = [  # schedule, (months, days, hours), time of day, zone, local anchor
    ("every 1 day at 02:30", (0, 1, 0), "02:30", "Europe/Berlin", "2026-03-27 12:00", 5),
    ("every 1 day at 02:30", (0, 1, 0), "02:30", "Europe/Berlin", "2026-10-23 12:00", 5),
    ("every 1 day at 02:00", (0, 1, 0), "02:00", "Europe/Berlin", "2026-03-27 12:00", 3),
    ("every 1 day at 03:00", (0, 1, 0), "03:00", "Europe/Berlin", "2026-10-23 12:00", 3),
    ("every 1 day at 02:30", (0, 1, 0), "02:30", "America/New_York", "2026-03-06 12:00", 4),
    ("every 1 day at 01:30", (0, 1, 0), "01:30", "America/New_York", "2026-10-30 12:00", 4),
    ("every 1 day at 02:15", (0, 1, 0), "02:15", "Australia/Lord_Howe", "2026-10-02 12:00", 4),
    ("every 1 day at 01:45", (0, 1, 0), "01:45", "Australia/Lord_Howe", "2026-04-03 12:00", 4),
    ("every 7 days", (0, 7, 0), None, "America/New_York", "2026-02-22 02:30", 4),
    ("every 12 hours", (0, 0, 12), None, "Europe/Berlin", "2026-03-28 09:00", 4),
    ("every 12 hours at 01:00", (0, 0, 12), "01:00", "Europe/Berlin", "2026-10-24 00:30", 4),
    ("every 1 month at 09:00", (1, 0, 0), "09:00", "Europe/Berlin", "2026-01-31 10:00", 6),
    ("every 1 month", (1, 0, 0), None, "America/New_York", "2027-12-31 23:30", 4),
    ("every 1 year at 00:00", (12, 0, 0), "00:00", "UTC", "2028-02-29 08:00", 4),
    ("every 1 month 1 day at 06:00", (1, 1, 0), "06:00", "UTC", "2028-01-30 08:00", 3),
]


def rows():
    for text, (months, days, hours), time, zone_name, anchor, count in CASES:
        zone = ZoneInfo(zone_name)
        local = datetime.fromisoformat(anchor)
        saved = instant(local, zone)
        if time is not None:
            hour, minute = map(int, time.split(":"))
            local = local.replace(hour=hour, minute=minute)
        times = (
            instant(later(local, months * n, days * n), zone) + timedelta(hours=hours * n)
            for n in range(1000)
        )
        due = [at for at in times if at > saved][:count]
        for n, at in enumerate(due, 1):
            yield (text, zone_name, saved.strftime("%F %R:%SZ"), n, at.strftime("%F %R:%SZ"))


print("--\n-- schedule_times: planned times, compared with those that Python's zoneinfo gives")
print("-- (written by test/schedule/times.py)\n--")
print("CREATE TABLE t.planned (plan text, zone text, saved timestamptz, n int, at timestamptz);")
print("INSERT INTO t.planned VALUES")
print(",\n".join("('%s', '%s', '%s', %d, '%s')" % row for row in rows()) + ";")
print("""SELECT count(*) AS compared FROM t.planned;
SELECT p.*, s.at AS given
  FROM t.planned p
  FULL JOIN (SELECT DISTINCT ON (c.plan, c.zone, c.saved, v.n) c.plan, c.zone, c.saved, v.n, v.at
               FROM (SELECT plan, zone, saved, max(n)::int AS rows FROM t.planned GROUP BY 1, 2, 3) c,
                    taskq_preview_schedule(c.plan, c.zone, c.saved, max_rows => c.rows) WITH ORDINALITY v (at, n)) s
    USING (plan, zone, saved, n)
 WHERE s.at IS DISTINCT FROM p.at;""")
