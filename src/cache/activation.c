/*
 * activation.c
 *		Are duties allowed in this database?
 *
 * taskq.instance stores the OID of its database.  A copy (a restored dump,
 * CREATE DATABASE with a template) contains the row of another database.
 * Until taskq_activate() has been called in the copy, duties must not run
 * there, since workers of the original may hold the copied tasks.
 *
 * Nothing is cached.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "base/catalog.h"
#include "base/spi.h"
#include "cache/activation.h"

static TqStmt stmt_wanted = {
	"SELECT count(*) = 1 AND bool_and(database_oid = $1) FROM taskq.instance",
	{OIDOID}};

/*
 * Are duties allowed here?  The extension must exist, and the database must
 * not be a copy that has not been activated.
 */
bool
tq_activation_allows_duties(void)
{
	TqSpi spi;
	Datum arg = ObjectIdGetDatum(MyDatabaseId);
	bool  wanted;

	if (!tq_catalog_present())
		return false;
	tq_spi_enter(&spi);
	tq_spi_look(&stmt_wanted, &arg, NULL, 1);
	wanted = tq_spi_bool(0, 1);
	tq_spi_leave(&spi);
	return wanted;
}
