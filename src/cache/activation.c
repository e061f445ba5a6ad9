/*
 * activation.c
 *		May duties run in this database?
 *
 * taskq.instance names the database by its OID.  A copy (a restored dump,
 * CREATE DATABASE with a template) brings the row of another database; until
 * taskq_activate() has been called there no duty must run, since workers of
 * the original may hold the copied tasks.
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
 * May duties run here?  The extension must exist, and the database must not
 * be a copy that nobody has activated.
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
