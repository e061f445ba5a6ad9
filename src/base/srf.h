/*
 * srf.h
 *		The rows that a set-returning function returns.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_SRF_H
#define TQ_SRF_H

#include "base/compat.h"

#include "fmgr.h"
#include "nodes/execnodes.h"

extern void tq_srf_begin(FunctionCallInfo fcinfo);
extern void tq_srf_add(ReturnSetInfo *result, const Datum *values,
					   const bool *nulls);

extern Datum tq_srf_row(FunctionCallInfo fcinfo, const Datum *values,
						const bool *nulls);

#endif /* TQ_SRF_H */
