/*
 * key_preview.h
 *		Notes in advance the keys that a move of a step may need.
 *
 * Copyright (c) 2026, the taskq developers
 */
#ifndef TQ_KEY_PREVIEW_H
#define TQ_KEY_PREVIEW_H

#include "flow/instance/flow_types.h"
#include "store/table.h"

/* Templates of which all keys have been noted. */
typedef struct TqKeyPreview
{
	List *all;
	List *begun; /* that start inside of another instance */
} TqKeyPreview;

extern bool *tq_key_preview_behind(const TqTemplate *template,
								   const TqStep *step);
extern bool  tq_key_preview_ends_at_once(const TqStep *step);
extern void  tq_key_preview_note(TqCall *call, TqKeyPreview *ahead,
								 const TqTemplate *template,
								 const TqStep *step);
extern void  tq_key_preview_note_start(TqCall *call,
									   const TqTemplate *template);
extern void  tq_key_preview_note_inside(TqCall *call, const TqStep *step);
extern void  tq_key_preview_note_cancel(TqCall *call, const TqFlow *flow);
extern void  tq_key_preview_note_child(TqCall *call, int64 task_id);
extern TqTemplate *tq_key_preview_template(const TqWaitDefinition *wait);

#endif /* TQ_KEY_PREVIEW_H */
