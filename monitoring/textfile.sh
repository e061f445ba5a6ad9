#!/bin/sh
# textfile.sh FILE: writes the metrics for the text-file collector of Debian's
# prometheus-node-exporter.  Run it once a minute, for example by cron:
#
#   * * * * * prometheus PGDATABASE=mydb PGUSER=taskq_monitor textfile.sh /var/lib/prometheus/node-exporter/taskq.prom
#
# The file is replaced as a whole, and only if the query succeeds.
psql -XAtc "SELECT taskq_openmetrics('prometheus')" >"$1.$$" && mv "$1.$$" "$1" || { rm -f "$1.$$"; exit 1; }
