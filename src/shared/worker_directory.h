/*
 * worker_directory.h
 *		Where a database's background worker can be found.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WORKER_DIRECTORY_H
#define TQ_WORKER_DIRECTORY_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* How a worker's last stay at its station ended. */
typedef enum TqStationEnd
{
	TQ_STATION_END_NONE,      /* it has not, or the launcher knows */
	TQ_STATION_END_FAILED,    /* error, signal, anything unforeseen */
	TQ_STATION_END_KEPT_OUT,  /* a command asked it to leave */
	TQ_STATION_END_NOT_WANTED /* nothing to do in this database */
} TqStationEnd;

typedef enum TqStationAttach
{
	TQ_STATION_ATTACHED,
	TQ_STATION_OCCUPIED, /* another worker is there */
	TQ_STATION_CLOSED    /* kept out, or forgotten */
} TqStationAttach;

/* A copy of one entry, for the launcher. */
typedef struct TqStationItem
{
	Oid          dboid;
	int          pid;         /* 0: no worker attached */
	bool         established; /* its worker has found something to do */
	bool         asked;       /* somebody wants a worker to look */
	uint32       ask_count;
	int          keep_out;
	TqStationEnd end;
} TqStationItem;

/* What can be seen of a database's worker. */
typedef struct TqStationView
{
	int         pid;     /* 0: no worker attached */
	TimestampTz turn_at; /* its last turn began; dispatch clock */
	bool        working; /* it has not ended */
	int         keep_out;
} TqStationView;

extern Size tq_station_size(void);
extern void tq_station_init(void);

/* for everybody; these cannot fail */
extern void tq_station_wake(void);
extern void tq_station_due(TimestampTz at);
extern void tq_station_visit(Oid dboid);
extern bool tq_station_worker(Oid dboid, int *pid);
extern bool tq_station_look(Oid dboid, TqStationView *view);
extern bool tq_station_has_launcher(void);
extern int  tq_station_places(void);
extern bool tq_station_lacks_slot(void);
extern bool tq_station_lacks_room(void);

/* for commands that want a database without its worker */
extern bool tq_station_keep_out_begin(Oid dboid);
extern void tq_station_keep_out_end(Oid dboid);
extern void tq_station_dropped(Oid dboid);
extern bool tq_station_last_worker(Oid dboid, int *pid);
extern void tq_station_interrupt(Oid dboid);

/* for the worker */
extern TqStationAttach tq_station_attach(Oid dboid);
extern bool            tq_station_establish(void);
extern bool            tq_station_kept_out(void);
extern bool            tq_station_asked(void);
extern TimestampTz     tq_station_told(void);
extern TimestampTz     tq_station_turn_begin(void);
extern TimestampTz     tq_station_turn_end(TimestampTz next);
extern void            tq_station_detach(TqStationEnd end);

/* for the launcher */
extern void         tq_station_launcher_attach(void);
extern void         tq_station_launcher_detach(void);
extern void         tq_station_round_begin(void);
extern bool         tq_station_told_launcher(void);
extern int          tq_station_capacity(void);
extern int          tq_station_list(TqStationItem *items, int max);
extern TqStationEnd tq_station_take_end(Oid dboid);
extern void         tq_station_forget(Oid dboid, uint32 ask_count);
extern bool         tq_station_take_rescan(void);
extern void         tq_station_set_lacks_slot(bool lacks);

#endif /* TQ_WORKER_DIRECTORY_H */
