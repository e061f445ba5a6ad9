/*
 * name_lock.c
 *		Locks on names that calls give to several rows.
 *
 * An index makes names unique, and rows are written in the caller's order or
 * in id order.  If two calls each give several names, the second one waits
 * here before it has written anything: all locks of a call are taken in one
 * order.  They lock hashes of names, of which there are so few that a list of
 * a hundred thousand does not fill the lock table.
 *
 * The OID in the lock tags is that of a table, which REINDEX CONCURRENTLY does
 * not change.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "storage/lmgr.h"

#include "base/catalog.h"
#include "engine/name_lock.h"

#define NAME_LOCKS 1024

static int hash_of(const char *name);

/* Add a name that must be locked. */
Bitmapset *
tq_name_lock_add(Bitmapset *names, const char *name)
{
	return bms_add_member(names, hash_of(name));
}

static int
hash_of(const char *name)
{
	uint32 hash = hash_bytes((const unsigned char *) name, (int) strlen(name));

	return (int) (hash % NAME_LOCKS);
}

/*
 * Lock the names until the transaction ends; names on which the call only
 * depends are locked in share mode.
 */
void
tq_name_lock(TqNameKind kind, const Bitmapset *names, const Bitmapset *shared)
{
	Bitmapset *all = bms_union(names, shared);
	int        hash = -1;

	while ((hash = bms_next_member(all, hash)) >= 0)
		LockDatabaseObject(tq_catalog()->key, (Oid) hash, (uint16) kind,
						   bms_is_member(hash, names) ? ExclusiveLock
													  : ShareLock);
	bms_free(all);
}

/*
 * Lock a name until the transaction ends, or return false if another
 * transaction has it.
 */
bool
tq_name_lock_try(TqNameKind kind, const char *name)
{
	LOCKTAG tag;

	SET_LOCKTAG_OBJECT(tag, MyDatabaseId, tq_catalog()->key,
					   (Oid) hash_of(name), (uint16) kind);
	return LockAcquire(&tag, ExclusiveLock, false, true) !=
		   LOCKACQUIRE_NOT_AVAIL;
}
