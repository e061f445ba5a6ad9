/*
 * compat.h
 *		Differences between the supported server versions, 15 to 18.
 *
 * Every file of the extension includes this header first, and no other file
 * tests a version number.
 *
 * The differences came with these versions:
 *
 *	 16	object_aclcheck; escontext of stringToQualifiedNameList;
 *		varatt.h; updates that want BRIN entries only (TU_UpdateIndexes,
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
 * "make check-versions" compiles for each version whose headers it finds.
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
#include "utils/regproc.h"
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

/* Version 18 has pg_noreturn instead, which precedes a declaration. */
#if PG_VERSION_NUM >= 180000
#define pg_attribute_noreturn() __attribute__((noreturn))
#endif

/*
 * Work under search_path = pg_catalog, pg_temp.  Pass the level that
 * tq_compat_path_enter returns to tq_compat_path_leave.  After an error the
 * server's own abort processing restores the path.
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
 * Index entries of a row, and which of them an update needs.  From version 16
 * an update may need entries in BRIN indexes only: the other indexes still
 * lead to the row through its HOT chain and must get no entry.
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
 * table_tuple_update and table_tuple_delete, called with wait = false, return
 * TM_BeingModified if another transaction is changing the row.  A server with
 * assertions does not allow heap_update to be called that way.
 */
#ifdef USE_ASSERT_CHECKING
#define TQ_WRITE_CAN_REFUSE false
#else
#define TQ_WRITE_CAN_REFUSE true
#endif

/* Lock a row unless another transaction has locked it. */
#if PG_VERSION_NUM >= 180000
#define tq_compat_try_lock_tuple(rel, tid, mode)                              \
	ConditionalLockTuple(rel, tid, mode, false)
#else
#define tq_compat_try_lock_tuple(rel, tid, mode)                              \
	ConditionalLockTuple(rel, tid, mode)
#endif

/* Give a column of a new tuple descriptor a fixed length. */
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

/* The local transaction id of this backend. */
#if PG_VERSION_NUM >= 170000
#define TQ_MY_LXID (MyProc->vxid.lxid)
#else
#define TQ_MY_LXID (MyProc->lxid)
#endif

/*
 * Returns the status of a server process, counted from 1, or NULL if it has
 * ended.
 */
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

/*
 * Returns when the server process of that type started, or 0 if no such
 * process exists.
 */
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

/* When the oldest open transaction of the database began, or limit. */
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

/* An ordered path of a foreign table, and its sort order. */
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

/*
 * Returns the process of a virtual transaction, or 0 if the transaction has
 * ended.
 */
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
 * The server's own wait event set of a session: the client's socket, the
 * latch, postmaster death.  Its declaration in libpq/libpq.h needs headers of
 * other libraries that may not be installed.
 */
extern PGDLLIMPORT WaitEventSet *FeBeWaitSet;
extern bool                      pq_check_connection(void);

#define TQ_CLIENT_SOCKET_POS 0
#define TQ_CLIENT_EVENTS 3

/*
 * Wait for the latch, or until the client has disconnected.  Returns false
 * without waiting if there is no client, or if this platform cannot report
 * that it has disconnected.
 */
static inline bool
tq_compat_wait_client(long timeout, uint32 wait_event, bool *closed)
{
	WaitEvent events[TQ_CLIENT_EVENTS];
	int       count;

	if (MyProcPort == NULL || FeBeWaitSet == NULL ||
		!WaitEventSetCanReportClosed())
		return false;
	/* every other user of this socket sets its events before it waits */
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

/* Is the client still connected?  True for a process without a client. */
static inline bool
tq_compat_has_client(void)
{
	return MyProcPort == NULL || FeBeWaitSet == NULL || pq_check_connection();
}

/* The parts of a qualified name; raises 42602 if it is none. */
static inline List *
tq_compat_qualified_name(const char *text)
{
#if PG_VERSION_NUM >= 160000
	return stringToQualifiedNameList(text, NULL);
#else
	return stringToQualifiedNameList(text);
#endif
}

/* Does the role have the right to connect to this database? */
static inline bool
tq_compat_may_connect(Oid role)
{
#if PG_VERSION_NUM >= 160000
	return object_aclcheck(DatabaseRelationId, MyDatabaseId, role,
						   ACL_CONNECT) == ACLCHECK_OK;
#else
	return pg_database_aclcheck(MyDatabaseId, role, ACL_CONNECT) ==
		   ACLCHECK_OK;
#endif
}

#endif /* TQ_COMPAT_H */
