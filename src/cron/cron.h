/*
 * cron.h
 *		Jobs of pg_cron.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CRON_H
#define TQ_CRON_H

#include "base/compat.h"

/* The longest name of a schedule whose job's name fits into type name. */
#define TQ_CRON_MAX_NAME (NAMEDATALEN - 1 - 6)

/*
 * SQL: the command that job j would have, if it fires the schedule after which
 * it is named; command_of in cron.c makes the same text.
 */
#define TQ_SQL_CRON_COMMAND                                                   \
	"concat('SELECT taskq.fire_cron(',"                                       \
	" quote_literal(substr(j.jobname::text, 7)), ')')"

/* Can pg_cron run jobs of this database? */
typedef enum TqCronState
{
	TQ_CRON_ABSENT,    /* pg_cron is not loaded */
	TQ_CRON_ELSEWHERE, /* it runs in another database */
	TQ_CRON_MISSING,   /* the extension was not created */
	TQ_CRON_REFUSING,  /* it runs no jobs of superusers */
	TQ_CRON_READY
} TqCronState;

extern TqCronState tq_cron_state(void);
extern const char *tq_cron_database(void);
extern void        tq_cron_require(const char *zone);
extern int64       tq_cron_write(const char *name, const char *schedule,
								 int64 job_id);
extern void        tq_cron_remove(const char *name, int64 job_id);
extern void        tq_cron_remove_all(void);

#endif /* TQ_CRON_H */
