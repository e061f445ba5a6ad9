/*
 * role.h
 *		Roles by number, rights on queues, who is calling.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_ROLE_H
#define TQ_ROLE_H

#include "base/types.h"
#include "cache/queue_types.h"

extern int32 tq_role_intern(Oid role);
extern int32 tq_role_intern_now(Oid role);
extern Oid   tq_role_oid(int32 role_id);
extern int   tq_role_rights(const TqQueue *queue);
extern int   tq_role_rights_of(Oid user, const TqQueue *queue);
extern int   tq_role_rights_all(void);
extern int   tq_role_rights_all_of(Oid user);
extern bool  tq_role_is_monitor(void);
extern bool  tq_role_sees_numbers(const TqQueue *queue);
extern bool  tq_role_sees_all_numbers(void);
extern void  tq_role_require_all_numbers(void);
extern void  tq_role_require(const TqQueue *queue, TqRight right);
extern void  tq_role_require_all(TqRight right);
extern void  tq_role_init(void);

extern void tq_role_require_task(const TqQueue *queue, int64 task_id,
								 TqRight right);

#endif /* TQ_ROLE_H */
