/*
 * reach.h
 *		Finds the steps that come after or before a step of a template.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_REACH_H
#define TQ_REACH_H

#include "flow/definition/template_types.h"

extern void  tq_reach_add_below(const TqTemplate *template, int place,
								bool *below);
extern bool *tq_reach_below(const TqTemplate *template, int place);
extern bool *tq_reach_above(const TqTemplate *template, int place);

#endif /* TQ_REACH_H */
