/*
 * health.h
 *		taskq_health(): what its checks share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_HEALTH_H
#define TQ_HEALTH_H

#include "base/compat.h"

#include "datatype/timestamp.h"
#include "lib/stringinfo.h"

#endif /* TQ_HEALTH_H */
