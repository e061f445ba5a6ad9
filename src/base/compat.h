/*
 * compat.h
 *		What differs between the supported server versions, 15 to 18.
 *
 * Every file of the extension takes this header first, and no other file
 * tests a version number.
 *
 * What is told apart here came into the server with
 *
 *	 16	varatt.h; updates that want BRIN entries only (TU_UpdateIndexes,
 *		onlySummarizing); the name pgstat_get_local_beentry_by_index;
 *		get_eclass_for_sort_expr without nullable_relids, since a Var says
 *		itself which outer joins make it null
 *	 17	RestrictSearchPath in place of PushOverrideSearchPath; MyProcNumber and
 *		PGPROC.vxid, ProcNumberGetProc, when backend ids went;
 *		fdw_restrictinfo; orstronger of LockHeldByMe
 *	 18	compact attributes of a TupleDesc;
 *		explain_format.h and explain_state.h; pg_noreturn; logLockFailure of
 *		ConditionalLockTuple; tupleid of ExecCheckIndexConstraints; instrument
 *		of index_beginscan; disabled_nodes of a path; COMPARE_LT in path keys
 *
 * "make check-versions" compiles for all of them of which it finds headers.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_COMPAT_H
#define TQ_COMPAT_H

#include "postgres.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/sinvaladt.h"
#include "utils/acl.h"
#include "utils/backend_status.h"
#include "utils/guc.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h" /* was part of postgres.h */
#endif
#if PG_VERSION_NUM >= 180000
#include "commands/explain_format.h" /* were part of commands/explain.h */
#include "commands/explain_state.h"
#endif

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "taskq supports PostgreSQL 15 to 18"
#endif

/* 18 has pg_noreturn in its place, which stands before a declaration. */
#if PG_VERSION_NUM >= 180000
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

/*
 * Working under search_path = pg_catalog, pg_temp.  The level that
 * tq_compat_path_enter returns goes back to tq_compat_path_leave; an error
 * in between is undone by the server's own abort processing.
 */
#if PG_VERSION_NUM >= 170000
static inline int
tq_compat_path_enter(void)
{
	int level = NewGUCNestLevel();

	RestrictSearchPath();
	return level;
}

static inline void
tq_compat_path_leave(int level)
{
	AtEOXact_GUC(false, level);
}
#else
static inline int
tq_compat_path_enter(void)
{
	OverrideSearchPath path = {0};

	path.addCatalog = true;
	path.addTemp = false;
	PushOverrideSearchPath(&path);
	return 0;
}

static inline void
tq_compat_path_leave(int level)
{
	PopOverrideSearchPath();
}
#endif

/*
 * The entries of a row in the indexes, and which of them an update needs: from
 * 16 on it may be those of BRIN indexes only, while the others still lead to
 * the row by its chain of versions and must get no entry.
 */
#if PG_VERSION_NUM >= 160000
typedef TU_UpdateIndexes TqIndexUpdate;
#define TQ_INDEX_UPDATE_NONE TU_None
#define tq_compat_insert_index(rri, slot, estate, update, noerr, conflict,    \
							   arb)                                           \
	ExecInsertIndexTuples(rri, slot, estate, update, noerr, conflict, arb,    \
						  false)
#define tq_compat_update_index(rri, slot, estate, indexes)                    \
	ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL,         \
						  (indexes) == TU_Summarizing)
#else
typedef bool TqIndexUpdate;
#define TQ_INDEX_UPDATE_NONE false
#define tq_compat_insert_index(rri, slot, estate, update, noerr, conflict,    \
							   arb)                                           \
	ExecInsertIndexTuples(rri, slot, estate, update, noerr, conflict, arb)
#define tq_compat_update_index(rri, slot, estate, indexes)                    \
	ExecInsertIndexTuples(rri, slot, estate, false, false, NULL, NIL)
#endif

#if PG_VERSION_NUM >= 180000
#define tq_compat_check_index(rri, slot, estate, tid, arb)                    \
	ExecCheckIndexConstraints(rri, slot, estate, tid, NULL, arb)
#define tq_compat_index_beginscan(heap, index, snapshot, nkeys)               \
	index_beginscan(heap, index, snapshot, NULL, nkeys, 0)
#else
#define tq_compat_check_index(rri, slot, estate, tid, arb)                    \
	ExecCheckIndexConstraints(rri, slot, estate, tid, arb)
#define tq_compat_index_beginscan(heap, index, snapshot, nkeys)               \
	index_beginscan(heap, index, snapshot, nkeys, 0)
#endif

/*
 * table_tuple_update and table_tuple_delete, asked not to wait, answer
 * TM_BeingModified when another transaction is at the row.  In a server with
 * assertions one of them forbids to ask that of heap_update.
 */
#ifdef USE_ASSERT_CHECKING
#define TQ_WRITE_CAN_REFUSE false
#else
#define TQ_WRITE_CAN_REFUSE true
#endif

/* The lock of a row, if nobody has it. */
#if PG_VERSION_NUM >= 180000
#define tq_compat_try_lock_tuple(rel, tid, mode)                              \
	ConditionalLockTuple(rel, tid, mode, false)
#else
#define tq_compat_try_lock_tuple(rel, tid, mode)                              \
	ConditionalLockTuple(rel, tid, mode)
#endif

/* Make a column of a new description one of that length. */
static inline void
tq_compat_set_length(TupleDesc desc, AttrNumber column, int16 length)
{
	Form_pg_attribute att = TupleDescAttr(desc, column - 1);

	att->attlen = length;
	att->attbyval = false;
	att->attstorage = TYPSTORAGE_PLAIN;
#if PG_VERSION_NUM >= 180000
	populate_compact_attribute(desc, column - 1);
#endif
}

/* The number of this backend's transaction, its own count. */
#if PG_VERSION_NUM >= 170000
#define TQ_MY_LXID (MyProc->vxid.lxid)
#else
#define TQ_MY_LXID (MyProc->lxid)
#endif

/* One of the server's processes, counted from 1; NULL when it has ended. */
static inline const PgBackendStatus *
tq_compat_backend(int i)
{
#if PG_VERSION_NUM >= 160000
	LocalPgBackendStatus *local = pgstat_get_local_beentry_by_index(i);
#else
	LocalPgBackendStatus *local = pgstat_fetch_stat_local_beentry(i);
#endif

	return local == NULL ? NULL : &local->backendStatus;
}

/* When the server's process of that kind was started; 0: there is none. */
static inline TimestampTz
tq_compat_backend_start(BackendType type)
{
	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const PgBackendStatus *status = tq_compat_backend(i);

		if (status != NULL && status->st_backendType == type)
			return status->st_proc_start_timestamp;
	}
	return 0;
}

/* When the oldest open transaction of the database began; or limit. */
static inline TimestampTz
tq_compat_oldest_transaction(Oid database, TimestampTz limit)
{
	for (int i = 1; i <= pgstat_fetch_stat_numbackends(); i++)
	{
		const PgBackendStatus *status = tq_compat_backend(i);

		if (status != NULL && status->st_databaseid == database &&
			status->st_xact_start_timestamp != 0)
			limit = Min(limit, status->st_xact_start_timestamp);
	}
	return limit;
}

/* An ordered path of a foreign table, and what it is ordered by. */
#if PG_VERSION_NUM >= 180000
#define tq_compat_foreign_path(root, rel, rows, startup, total, keys, fdw)    \
	create_foreignscan_path(root, rel, NULL, rows, 0, startup, total, keys,   \
							(rel)->lateral_relids, NULL, NIL, fdw)
#define TQ_SORT_RISING COMPARE_LT
#define TQ_SORT_FALLING COMPARE_GT
#else
#if PG_VERSION_NUM >= 170000
#define tq_compat_foreign_path(root, rel, rows, startup, total, keys, fdw)    \
	create_foreignscan_path(root, rel, NULL, rows, startup, total, keys,      \
							(rel)->lateral_relids, NULL, NIL, fdw)
#else
#define tq_compat_foreign_path(root, rel, rows, startup, total, keys, fdw)    \
	create_foreignscan_path(root, rel, NULL, rows, startup, total, keys,      \
							(rel)->lateral_relids, NULL, fdw)
#endif
#define TQ_SORT_RISING BTLessStrategyNumber
#define TQ_SORT_FALLING BTGreaterStrategyNumber
#endif
#if PG_VERSION_NUM >= 160000
#define tq_compat_sort_class(root, expr, families, type, rels)                \
	get_eclass_for_sort_expr(root, expr, families, type, InvalidOid, 0, rels, \
							 true)
#else
#define tq_compat_sort_class(root, expr, families, type, rels)                \
	get_eclass_for_sort_expr(root, expr, NULL, families, type, InvalidOid, 0, \
							 rels, true)
#endif

/* The number of this backend's PGPROC, below MaxBackends. */
#if PG_VERSION_NUM >= 170000
#define TQ_MY_PROC_NUMBER MyProcNumber
#else
#define TQ_MY_PROC_NUMBER (MyProc->pgprocno)
#endif

/* The process of a virtual transaction; 0: it has ended. */
#if PG_VERSION_NUM >= 170000
#define TQ_VXID_PROC(vxid) ProcNumberGetProc((vxid).procNumber)
#else
#define TQ_VXID_PROC(vxid) BackendIdGetProc((vxid).backendId)
#endif
static inline int
tq_compat_vxid_pid(VirtualTransactionId vxid)
{
	PGPROC *proc = TQ_VXID_PROC(vxid);

	return proc == NULL ? 0 : proc->pid;
}

#if PG_VERSION_NUM >= 170000
#define tq_compat_lock_held(tag, mode) LockHeldByMe(tag, mode, false)
#else
#define tq_compat_lock_held(tag, mode) LockHeldByMe(tag, mode)
#endif

/*
 * The server's own set of what a session waits for: its client's socket, its
 * latch, the end of the postmaster.  libpq/libpq.h, which declares it, wants
 * headers of other libraries that need not be installed.
 */
extern PGDLLIMPORT WaitEventSet *FeBeWaitSet;
extern bool                      pq_check_connection(void);

#define TQ_CLIENT_SOCKET_POS 0
#define TQ_CLIENT_EVENTS 3

/*
 * Wait for the latch, or until the client is gone.  False, without having
 * waited: there is no client, or its end cannot be seen here.
 */
static inline bool
tq_compat_wait_client(long timeout, uint32 wait_event, bool *closed)
{
	WaitEvent events[TQ_CLIENT_EVENTS];
	int       count;

	if (MyProcPort == NULL || FeBeWaitSet == NULL ||
		!WaitEventSetCanReportClosed())
		return false;
	/* whoever waits for this socket says anew for what */
	ModifyWaitEvent(FeBeWaitSet, TQ_CLIENT_SOCKET_POS, WL_SOCKET_CLOSED, NULL);
	count = WaitEventSetWait(FeBeWaitSet, timeout, events, TQ_CLIENT_EVENTS,
							 wait_event);
	for (int i = 0; i < count; i++)
	{
		if (events[i].events & WL_POSTMASTER_DEATH)
			proc_exit(1);
		if (events[i].events & WL_SOCKET_CLOSED)
			*closed = true;
	}
	return true;
}

/* Is there still somebody who would get an answer? */
static inline bool
tq_compat_has_client(void)
{
	return MyProcPort == NULL || FeBeWaitSet == NULL || pq_check_connection();
}

#endif /* TQ_COMPAT_H */
