/*
 * manage_many.h
 *		taskq_manage_many, and its changes one by one.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_MANAGE_MANY_H
#define TQ_MANAGE_MANY_H

#include "fmgr.h"

#include "command/manage.h"

extern void     tq_manage_many_one(TqTask *task, TqWish *wish);
extern TqAction tq_manage_many_read_action(FunctionCallInfo fcinfo, int n);
extern bool tq_manage_many_parse_action(const char *word, TqAction *action);
extern bool tq_manage_many_is_problem(int sqlstate);

#endif /* TQ_MANAGE_MANY_H */
