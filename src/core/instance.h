/*
 * instance.h
 *		Is this database a copy?
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_INSTANCE_H
#define TQ_INSTANCE_H

#include "base/compat.h"

extern bool tq_instance_rows_loaded(void);

#endif /* TQ_INSTANCE_H */
