/*
 * number.h
 *		Numbers of queues and roles.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_NUMBER_H
#define TQ_NUMBER_H

#include "base/compat.h"

extern int32 tq_number_of_queue(void);
extern int32 tq_number_of_role(void);

#endif /* TQ_NUMBER_H */
