/*
 * role.c
 *		Numbers of roles, and rights on queues.
 *
 * Rights are checked for current_user at the call.  Its rights on a queue are
 * those granted, on this queue or on all queues, to any role whose privileges
 * it has.  Superusers, the extension's owner and the queue's owner have all
 * rights.
 *
 * Grants are cached by the session until the next announced change, and the
 * numbers of roles as long as the extension is the same (base/catalog.c).  A
 * number assigned by this transaction is forgotten when the transaction, or
 * the savepoint, rolls back (tq_xact_on_rollback), and when it is prepared.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_type.h"
#include "fmgr.h"
#include "storage/lmgr.h"
#include "utils/builtins.h"
#include "utils/hsearch.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"

#include "base/catalog.h"
#include "base/error.h"
#include "base/spi.h"
#include "cache/number.h"
#include "cache/role.h"
#include "xact/xact.h"

typedef struct Grant
{
	int32 queue_id; /* 0: all queues */
	Oid   role;     /* InvalidOid: PUBLIC */
	int   rights;
} Grant;

typedef struct RoleEntry
{
	Oid   role;
	int32 role_id;
} RoleEntry;

static MemoryContext grant_context = NULL;
static Grant        *grants = NULL;
static int           grant_count = 0;
static uint64        grant_generation = 0;

static HTAB  *role_numbers = NULL;
static uint64 role_identity = 0; /* extension that assigned the numbers */

static TqStmt stmt_grants = {
	"SELECT g.queue_id, r.oid, g.rights"
	"  FROM taskq.queue_grant g LEFT JOIN taskq.known_role r USING (role_id)"
	" WHERE g.role_id = 0 OR r.oid IS NOT NULL"};

static TqStmt stmt_find = {
	"SELECT role_id FROM taskq.known_role WHERE oid = $1", {OIDOID}};

/*
 * If a row with this OID does not belong to a known role, change its OID to
 * one that no role has.
 */
static TqStmt stmt_doubt = {
	"UPDATE taskq.role r SET oid = (4294967295 - r.role_id)::oid"
	" WHERE r.oid = $1"
	"   AND NOT EXISTS (SELECT FROM taskq.known_role k"
	"                    WHERE k.role_id = r.role_id)",
	{OIDOID}};

static TqStmt stmt_add = {"INSERT INTO taskq.role (role_id, name, oid)"
						  " VALUES ($3, $2, $1) ON CONFLICT (oid) DO NOTHING",
						  {OIDOID, TEXTOID, INT4OID}};

static TqStmt stmt_oid = {
	"SELECT oid FROM taskq.known_role WHERE role_id = $1", {INT4OID}};

static void  forget(void);
static int32 number_of(Oid role, bool wait);
static void  load_grants(void);
static int   granted(Oid user, int32 queue_id);
static int   complete(int rights);

/*
 * The number of a role, assigned if it has none.  Waits for a concurrent
 * transaction that is assigning it too.
 */
int32
tq_role_intern(Oid role)
{
	return number_of(role, true);
}

/*
 * Like the function above, but does not wait: returns 0 if a concurrent
 * transaction is assigning the number.
 */
int32
tq_role_intern_now(Oid role)
{
	return number_of(role, false);
}

static int32
number_of(Oid role, bool wait)
{
	RoleEntry *entry;
	bool       found;
	TqSpi      spi;
	Datum      args[3];
	int32      role_id;

	if (role_identity != tq_catalog_identity())
		forget();
	role_identity = tq_catalog_identity();
	if (role_numbers == NULL)
	{
		HASHCTL ctl = {0};

		ctl.keysize = sizeof(Oid);
		ctl.entrysize = sizeof(RoleEntry);
		role_numbers = hash_create("taskq role numbers", 16, &ctl,
								   HASH_ELEM | HASH_BLOBS);
	}
	entry = hash_search(role_numbers, &role, HASH_FIND, NULL);
	if (entry != NULL)
		return entry->role_id;

	args[0] = ObjectIdGetDatum(role);
	args[1] = CStringGetTextDatum(GetUserNameFromId(role, false));
	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_find, args, NULL, 1) == 0)
	{
		Oid table = get_relname_relid("role", tq_catalog()->schema);

		/*
		 * until the end of the transaction: only one session assigns the
		 * number
		 */
		if (wait)
			LockDatabaseObject(table, role, 0, ExclusiveLock);
		else
		{
			LOCKTAG tag;

			SET_LOCKTAG_OBJECT(tag, MyDatabaseId, table, role, 0);
			if (LockAcquire(&tag, ExclusiveLock, false, true) ==
				LOCKACQUIRE_NOT_AVAIL)
			{
				tq_spi_leave(&spi);
				return 0;
			}
		}
		tq_xact_session_cache_changed();
		tq_spi_run(&stmt_doubt, args, NULL, SPI_OK_UPDATE, 0);
		args[2] = Int32GetDatum(tq_number_of_role());
		tq_spi_run(&stmt_add, args, NULL, SPI_OK_INSERT, 0);
		if (tq_spi_look(&stmt_find, args, NULL, 1) == 0)
			tq_error_serialization();
	}
	role_id = tq_spi_int4(0, 1, 0);
	tq_spi_leave(&spi);

	entry = hash_search(role_numbers, &role, HASH_ENTER, &found);
	entry->role_id = role_id;
	return role_id;
}

/* Returns the OID of a role number, or InvalidOid if no role has it. */
Oid
tq_role_oid(int32 role_id)
{
	TqSpi spi;
	Datum arg = Int32GetDatum(role_id);
	Oid   role = InvalidOid;

	tq_spi_enter(&spi);
	if (tq_spi_look(&stmt_oid, &arg, NULL, 1) > 0)
	{
		bool isnull;

		role = DatumGetObjectId(tq_spi_get(0, 1, &isnull));
	}
	tq_spi_leave(&spi);
	return role;
}

/* The rights of current_user on a queue, a bitwise OR of TqRight. */
int
tq_role_rights(const TqQueue *queue)
{
	return tq_role_rights_of(GetUserId(), queue);
}

/* The rights of another role on a queue. */
int
tq_role_rights_of(Oid user, const TqQueue *queue)
{
	if (superuser_arg(user) || has_privs_of_role(user, tq_catalog()->owner))
		return TQ_RIGHT_ALL;
	if (OidIsValid(queue->owner) && has_privs_of_role(user, queue->owner))
		return TQ_RIGHT_ALL;
	return complete(granted(user, queue->queue_id));
}

/* The rights of current_user on all queues. */
int
tq_role_rights_all(void)
{
	return tq_role_rights_all_of(GetUserId());
}

/* The rights of another role on all queues. */
int
tq_role_rights_all_of(Oid user)
{
	if (superuser_arg(user) || has_privs_of_role(user, tq_catalog()->owner))
		return TQ_RIGHT_ALL;
	return complete(granted(user, 0));
}

/* A role that may read may also observe. */
static int
complete(int rights)
{
	return (rights & TQ_RIGHT_READ) != 0 ? rights | TQ_RIGHT_OBSERVE : rights;
}

/* May current_user see everything except the contents of tasks? */
bool
tq_role_is_monitor(void)
{
	return has_privs_of_role(GetUserId(), ROLE_PG_MONITOR);
}

/* May current_user see the numbers of the queue: how many tasks, how long? */
bool
tq_role_sees_numbers(const TqQueue *queue)
{
	return tq_role_is_monitor() ||
		   (tq_role_rights(queue) & TQ_RIGHT_OBSERVE) != 0;
}

/* May current_user see the numbers of all queues, and of the server? */
bool
tq_role_sees_all_numbers(void)
{
	return tq_role_is_monitor() ||
		   (tq_role_rights_all() & TQ_RIGHT_OBSERVE) != 0;
}

void
tq_role_require_all_numbers(void)
{
	if (!tq_role_sees_all_numbers())
		tq_error_no_right("*", TQ_RIGHT_OBSERVE);
}

/* Raise 42501 unless current_user has the right on the queue. */
void
tq_role_require(const TqQueue *queue, TqRight right)
{
	if ((tq_role_rights(queue) & right) == 0)
		tq_error_no_right(queue->name, right);
}

void
tq_role_require_all(TqRight right)
{
	if ((tq_role_rights_all() & right) == 0)
		tq_error_no_right("*", right);
}

/* Numbers assigned by a transaction are forgotten when it rolls back. */
void
tq_role_init(void)
{
	tq_xact_on_rollback(forget);
}

/* Forget numbers whose assignment may have been rolled back. */
static void
forget(void)
{
	if (role_numbers != NULL)
	{
		hash_destroy(role_numbers);
		role_numbers = NULL;
	}
}

static int
granted(Oid user, int32 queue_id)
{
	int rights = 0;

	if (grant_generation != tq_catalog_queue_generation())
		load_grants();
	for (int i = 0; i < grant_count; i++)
	{
		if (grants[i].queue_id != 0 && grants[i].queue_id != queue_id)
			continue;
		if ((rights | grants[i].rights) == rights)
			continue;
		if (!OidIsValid(grants[i].role) ||
			has_privs_of_role(user, grants[i].role))
			rights |= grants[i].rights;
	}
	return rights;
}

static void
load_grants(void)
{
	uint64 generation = tq_catalog_queue_generation();
	uint64 rows;
	Grant *fresh;
	TqSpi  spi;

	if (grant_context == NULL)
		grant_context = AllocSetContextCreate(TopMemoryContext, "taskq grants",
											  ALLOCSET_SMALL_SIZES);
	grant_count = 0;
	grant_generation = 0;
	MemoryContextReset(grant_context);

	tq_spi_enter(&spi);
	rows = tq_spi_look(&stmt_grants, NULL, NULL, 0);
	fresh = MemoryContextAlloc(grant_context, sizeof(Grant) * (rows + 1));
	for (uint64 i = 0; i < rows; i++)
	{
		bool isnull;

		fresh[i].queue_id = tq_spi_int4(i, 1, 0);
		fresh[i].role = DatumGetObjectId(tq_spi_get(i, 2, &isnull));
		if (isnull)
			fresh[i].role = InvalidOid;
		fresh[i].rights = tq_spi_int4(i, 3, 0);
	}
	tq_spi_leave(&spi);
	grants = fresh;
	grant_count = (int) rows;
	grant_generation = generation;
}

/*
 * Raise 42501 unless current_user has the right on the task's queue.  For a
 * role without any right on that queue the task does not exist (TQ002).
 */
void
tq_role_require_task(const TqQueue *queue, int64 task_id, TqRight right)
{
	int rights = queue == NULL ? 0 : tq_role_rights(queue);

	if (rights == 0)
		tq_error_no_such_task(task_id);
	if ((rights & right) == 0)
		tq_error_task_right(task_id, right);
}
