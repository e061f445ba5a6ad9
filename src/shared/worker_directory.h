/*
 * worker_directory.h
 *		The directory of background workers, by database.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_WORKER_DIRECTORY_H
#define TQ_WORKER_DIRECTORY_H

#include "base/compat.h"

#include "datatype/timestamp.h"

/* How the database's last worker ended. */
typedef enum TqWorkerEnd
{
	TQ_WORKER_END_NONE,      /* it has not, or the launcher has handled it */
	TQ_WORKER_END_FAILED,    /* error, signal, anything unforeseen */
	TQ_WORKER_END_KEPT_OUT,  /* a command asked it to exit */
	TQ_WORKER_END_NOT_WANTED /* nothing to do in this database */
} TqWorkerEnd;

typedef enum TqWorkerAttach
{
	TQ_DIRECTORY_ATTACHED,
	TQ_DIRECTORY_OCCUPIED, /* another worker is there */
	TQ_DIRECTORY_CLOSED    /* kept out, or forgotten */
} TqWorkerAttach;

/* A copy of one entry, for the launcher. */
typedef struct TqWorkerItem
{
	Oid         dboid;
	int         pid;         /* 0: no worker attached */
	bool        established; /* its worker has found something to do */
	bool        asked;       /* a worker must check whether it is wanted */
	uint32      ask_count;
	int         keep_out;
	TqWorkerEnd end;
} TqWorkerItem;

/* The state of a database's worker. */
typedef struct TqWorkerView
{
	int         pid;      /* 0: no worker attached */
	int         last_pid; /* or the previous, which may be exiting */
	TimestampTz turn_at;  /* start of its last turn; dispatch clock */
	bool        working;  /* it has not ended */
	int         keep_out;
} TqWorkerView;

extern Size tq_worker_directory_size(void);
extern void tq_worker_directory_init(void);

/* for all sessions; these cannot fail */
extern void tq_worker_directory_wake(void);
extern void tq_worker_directory_due(TimestampTz at);
extern void tq_worker_directory_visit(Oid dboid);
extern bool tq_worker_directory_has_worker(Oid dboid);
extern bool tq_worker_directory_look(Oid dboid, TqWorkerView *view);
extern bool tq_worker_directory_has_launcher(void);
extern int  tq_worker_directory_places(void);
extern bool tq_worker_directory_lacks_slot(void);
extern bool tq_worker_directory_lacks_room(void);

/* for commands that require a database without its worker */
extern bool tq_worker_directory_keep_out_begin(Oid dboid);
extern void tq_worker_directory_keep_out_end(Oid dboid);
extern void tq_worker_directory_dropped(Oid dboid);
extern void tq_worker_directory_interrupt(Oid dboid);

/* for the worker */
extern TqWorkerAttach tq_worker_directory_attach(Oid dboid);
extern bool           tq_worker_directory_establish(void);
extern bool           tq_worker_directory_kept_out(void);
extern bool           tq_worker_directory_asked(void);
extern TimestampTz    tq_worker_directory_told(void);
extern TimestampTz    tq_worker_directory_turn_begin(void);
extern TimestampTz    tq_worker_directory_turn_end(TimestampTz next);
extern void           tq_worker_directory_detach(TqWorkerEnd end);

/* for the launcher */
extern void          tq_worker_directory_launcher_attach(void);
extern void          tq_worker_directory_launcher_detach(void);
extern void          tq_worker_directory_round_begin(void);
extern bool          tq_worker_directory_told_launcher(void);
extern TqWorkerItem *tq_worker_directory_list(int *count);
extern TqWorkerEnd   tq_worker_directory_take_end(Oid dboid);
extern void          tq_worker_directory_forget(Oid dboid, uint32 ask_count);
extern bool          tq_worker_directory_take_rescan(void);
extern void          tq_worker_directory_set_lacks_slot(bool lacks);

#endif /* TQ_WORKER_DIRECTORY_H */
