/*
 * place.h
 *		The list entry that a call is processing, for the context of errors.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_PLACE_H
#define TQ_PLACE_H

#include "base/compat.h"

typedef struct TqPlace
{
	const char          *list; /* the name of the argument */
	int                  index;
	ErrorContextCallback callback;
} TqPlace;

extern void tq_place_begin(TqPlace *place, const char *list);
extern void tq_place_end(TqPlace *place);

#endif /* TQ_PLACE_H */
