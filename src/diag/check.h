/*
 * check.h
 *		taskq_check(): what its parts share.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_CHECK_H
#define TQ_CHECK_H

#include "base/compat.h"

#include "nodes/execnodes.h"

#endif /* TQ_CHECK_H */
