/*
 * station.h
 *		Where a database's background worker is, and when it will wake.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_STATION_H
#define TQ_STATION_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* How a background worker ended, as it says itself. */
typedef enum TqStationEnd
{
	TQ_STATION_UNEXPECTED,
	TQ_STATION_NOT_WANTED /* no extension here, or a still copy */
} TqStationEnd;

extern Size tq_station_size(void);
extern void tq_station_init(void);

/* for everybody; from commit callbacks, too: cannot fail */
extern void tq_station_wake(void);
extern void tq_station_due(TimestampTz at);
extern void tq_station_visit(Oid database);

/* for the background worker of a database */
extern void        tq_station_attach(void);
extern void        tq_station_end(TqStationEnd how);
extern bool        tq_station_must_leave(void);
extern TimestampTz tq_station_turn_begins(void);
extern bool        tq_station_sleep_until(TimestampTz at);

/* for commands that need a database without connections */
extern void tq_station_keep_out(Oid database);
extern void tq_station_let_in(Oid database);
extern bool tq_station_is_left(Oid database, int *pid);

/* for the launcher */
extern void         tq_station_launcher_attach(void);
extern int          tq_station_count(void);
extern Oid          tq_station_database(int n);
extern bool         tq_station_take_visit(int n);
extern bool         tq_station_starting(int n);
extern TqStationEnd tq_station_ended(int n);
extern bool         tq_station_is_kept_out(int n);
extern void         tq_station_forget(int n);

#endif /* TQ_STATION_H */
