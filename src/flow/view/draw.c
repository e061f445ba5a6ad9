/*
 * draw.c
 *		taskq_workflow_graph: draws an instance in the language of Graphviz or
 *		Mermaid.
 *
 * Each step of the template is a node, even if it does not exist yet or never
 * will.  A step of type batch_worker has a node for each of its members, or a
 * single node with their numbers if there are more than DRAWN_MEMBERS.  The
 * ids of nodes are step indexes, so that names occur only in quotes.  If the
 * caller may not read the queue of a step, its node is drawn without a state,
 * because of its edges.
 *
 * Compensations are drawn beside the steps that they compensate, except for
 * members that are drawn as one node.
 *
 * Steps, members and edges are each visited a bounded number of times.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include <ctype.h>

#include "fmgr.h"
#include "utils/builtins.h"
#include "utils/snapmgr.h"

#include "base/arg.h"
#include "base/error.h"
#include "flow/instance/flow.h"
#include "flow/instance/results.h"
#include "flow/run/compensation.h"
#include "flow/run/tally.h"

#define DRAWN_MEMBERS 20

PG_FUNCTION_INFO_V1(taskq_workflow_graph);

/* The style of a node, which depends on what is known about its step. */
typedef enum Look
{
	LOOK_UNKNOWN = 0, /* hidden; followed by the styles of TqState */
	LOOK_NOT_CREATED = TQ_STATE_LAST + 1,
	LOOK_SKIPPED,
	LOOK_SEVERAL, /* members in different states */
	LOOKS
} Look;

/* A style: its name, the text of nodes without a state, and its colour. */
typedef struct Style
{
	const char *name;
	const char *fill;
} Style;

static const Style styles[LOOKS] = {
	[LOOK_UNKNOWN] = {"unknown", "#ffffff"},
	[TQ_STATE_PENDING] = {"pending", "#dbeafe"},
	[TQ_STATE_BLOCKED] = {"blocked", "#e5e7eb"},
	[TQ_STATE_RUNNING] = {"running", "#93c5fd"},
	[TQ_STATE_SUSPENDED] = {"suspended", "#fde68a"},
	[TQ_STATE_DONE] = {"done", "#bbf7d0"},
	[TQ_STATE_DEAD] = {"dead", "#fca5a5"},
	[TQ_STATE_CANCELLED] = {"cancelled", "#d1d5db"},
	[TQ_STATE_FILTERED] = {"filtered", "#d9f99d"},
	[TQ_STATE_REDUNDANT] = {"redundant", "#d1d5db"},
	[TQ_STATE_RECREATED] = {"recreated", "#d1d5db"},
	[LOOK_NOT_CREATED] = {"not_created", "#ffffff"},
	[LOOK_SKIPPED] = {"skipped", "#f3f4f6"},
	[LOOK_SEVERAL] = {"several", "#fef3c7"},
};

/* The rows of one step, ordered by step id. */
typedef struct Made
{
	int  first; /* first row of the step; -1: no row */
	int  count;
	bool sees;
} Made;

typedef struct Drawing
{
	const TqTemplate *template;
	const TqStepRow *rows;
	int             *next; /* next row of the same step; -1: no further row */
	Made            *made; /* by step index */
	bool            *skipped;
	bool             mermaid;
	StringInfoData   text;
} Drawing;

static void begin(Drawing *drawing, const TqFlow *flow, const TqStepRow *rows,
				  int count, const char *state);
static void sort_rows(Drawing *drawing, int count);
static void draw_step(Drawing *drawing, int place);
static void draw_members(Drawing *drawing, int place);
static void draw_node(Drawing *drawing, int32 step_id, const char *words,
					  Look look);
static void draw_edges(Drawing *drawing, int place);
static void draw_edge(Drawing *drawing, int32 parent, int32 child);
static void draw_compensations(Drawing *drawing, const TqFlow *flow);
static void draw_compensation(Drawing *drawing, int32 step_id,
							  const char *words, Look look);
static bool is_unfolded(const Drawing *drawing, int place);
static void add_id(Drawing *drawing, int32 step_id);
static void add_quoted(Drawing *drawing, const char *word);
static void end(Drawing *drawing);

Datum
taskq_workflow_graph(PG_FUNCTION_ARGS)
{
	int64      workflow_id = tq_arg_int8(fcinfo, 0, "workflow_id");
	char      *format = tq_arg_keyword(fcinfo, 1, "format");
	Drawing    drawing = {0};
	TqStepRow *rows;
	int        count;
	TqTally    tally;
	TqFlow     flow;

	if (format != NULL && strcmp(format, "mermaid") == 0)
		drawing.mermaid = true;
	else if (format != NULL && strcmp(format, "dot") != 0)
		tq_error_invalid("format", "is unknown", "Allowed: dot, mermaid.");
	tq_flow_push_moment();
	(void) tq_flow_look(workflow_id, &flow);
	count = tq_flow_steps(&flow, &rows);
	tq_tally_count(&flow, rows, count, &tally);
	begin(&drawing, &flow, rows, count, tq_tally_state(&flow, &tally));
	for (int i = 0; i < drawing.template->step_count; i++)
		draw_step(&drawing, i);
	for (int i = 0; i < drawing.template->step_count; i++)
		draw_edges(&drawing, i);
	draw_compensations(&drawing, &flow);
	end(&drawing);
	PopActiveSnapshot();
	PG_RETURN_TEXT_P(
		cstring_to_text_with_len(drawing.text.data, drawing.text.len));
}

static void
begin(Drawing *drawing, const TqFlow *flow, const TqStepRow *rows, int count,
	  const char *state)
{
	drawing->template = flow->template;
	drawing->rows = rows;
	sort_rows(drawing, count);
	drawing->skipped = tq_tally_skipped(flow, rows, count);
	initStringInfo(&drawing->text);
	if (drawing->mermaid)
	{
		appendStringInfo(&drawing->text,
						 "flowchart TD\n"
						 "  %%%% workflow " INT64_FORMAT ": %s\n",
						 flow->workflow_id, state);
		return;
	}
	appendStringInfo(&drawing->text,
					 "digraph workflow_" INT64_FORMAT " {\n"
					 "  label=\"",
					 flow->workflow_id);
	add_quoted(drawing, flow->template->name);
	appendStringInfo(&drawing->text,
					 "\\nworkflow " INT64_FORMAT ": %s\";\n"
					 "  node [shape=box, style=\"rounded,filled\"];\n",
					 flow->workflow_id, state);
}

/* Rows are ordered by member, so they are chained from the end. */
static void
sort_rows(Drawing *drawing, int count)
{
	int steps = drawing->template->step_count;

	drawing->next =
		palloc_extended(sizeof(int) * (count + 1), MCXT_ALLOC_HUGE);
	drawing->made = palloc0(sizeof(Made) * (steps + 1));
	for (int i = 0; i < steps; i++)
	{
		drawing->made[i].first = -1;
		/* the same steps that have rows in taskq.workflow_steps */
		drawing->made[i].sees = tq_flow_sees(&drawing->template->steps[i]);
	}
	for (int i = count - 1; i >= 0; i--)
	{
		const TqStepRow *row = &drawing->rows[i];
		int              place = TQ_STEP_INDEX(row->step_id);

		drawing->next[i] = drawing->made[place].first;
		drawing->made[place].first = i;
		drawing->made[place].count++;
	}
}

static void
draw_step(Drawing *drawing, int place)
{
	const Made *made = &drawing->made[place];

	CHECK_FOR_INTERRUPTS();
	if (!made->sees)
		draw_node(drawing, place, NULL, LOOK_UNKNOWN);
	else if (made->count == 0 && drawing->skipped[place])
		draw_node(drawing, place, styles[LOOK_SKIPPED].name, LOOK_SKIPPED);
	else if (made->count == 0)
		draw_node(drawing, place, NULL, LOOK_NOT_CREATED);
	else if (made->count > DRAWN_MEMBERS)
		draw_members(drawing, place);
	else
	{
		for (int i = made->first; i >= 0; i = drawing->next[i])
			draw_node(drawing, drawing->rows[i].step_id,
					  tq_state_name(drawing->rows[i].state),
					  (Look) drawing->rows[i].state);
	}
}

/* Draw many members as one node, with their numbers by state. */
static void
draw_members(Drawing *drawing, int place)
{
	const Made    *made = &drawing->made[place];
	int            counts[TQ_STATE_LAST + 1] = {0};
	Look           look = LOOK_SEVERAL;
	StringInfoData words;

	for (int i = made->first; i >= 0; i = drawing->next[i])
		counts[drawing->rows[i].state]++;
	initStringInfo(&words);
	appendStringInfo(&words, "%d members", made->count);
	for (int state = TQ_STATE_FIRST; state <= TQ_STATE_LAST; state++)
	{
		if (counts[state] == 0)
			continue;
		appendStringInfo(&words, ", %d %s", counts[state],
						 tq_state_name((TqState) state));
		if (counts[state] == made->count)
			look = (Look) state;
	}
	draw_node(drawing, place, words.data, look);
}

/* Draw a node. words go below the name; NULL: no words. */
static void
draw_node(Drawing *drawing, int32 step_id, const char *words, Look look)
{
	const TqStep *step = tq_template_at(drawing->template, step_id);
	bool          decides = step->type == TQ_STEP_DECISION;
	StringInfo    text = &drawing->text;

	appendStringInfoString(text, "  ");
	add_id(drawing, step_id);
	if (drawing->mermaid)
		appendStringInfoString(text, decides ? "{\"" : "[\"");
	else
		appendStringInfoString(text, " [label=\"");
	add_quoted(drawing, tq_results_name(drawing->template, step_id));
	if (words != NULL)
		appendStringInfo(text, "%s%s", drawing->mermaid ? "<br/>" : "\\n",
						 words);
	if (drawing->mermaid)
		appendStringInfo(text, "\"%s:::%s\n", decides ? "}" : "]",
						 styles[look].name);
	else
		appendStringInfo(text, "\", class=\"%s\", fillcolor=\"%s\"%s%s];\n",
						 styles[look].name, styles[look].fill,
						 decides ? ", shape=diamond" : "",
						 look == LOOK_NOT_CREATED || look == LOOK_SKIPPED
							 ? ", style=\"dashed,filled\""
							 : "");
}

/*
 * Draw edges from the steps that it depends on, but never from member to
 * member.
 */
static void
draw_edges(Drawing *drawing, int place)
{
	const TqStepList *parents = &drawing->template->steps[place].parents;

	CHECK_FOR_INTERRUPTS();
	for (int i = 0; i < parents->count; i++)
	{
		int parent = parents->places[i];

		if (is_unfolded(drawing, place))
		{
			for (int row = drawing->made[place].first; row >= 0;
				 row = drawing->next[row])
				draw_edge(drawing, parent, drawing->rows[row].step_id);
		}
		else if (is_unfolded(drawing, parent))
		{
			for (int row = drawing->made[parent].first; row >= 0;
				 row = drawing->next[row])
				draw_edge(drawing, drawing->rows[row].step_id, place);
		}
		else
			draw_edge(drawing, parent, place);
	}
}

/* A dashed edge: the child begins even if the parent is dead. */
static void
draw_edge(Drawing *drawing, int32 parent, int32 child)
{
	bool continues =
		drawing->template->steps[TQ_STEP_INDEX(parent)].continues &&
		!TQ_STEP_COMPENSATES(child);

	appendStringInfoString(&drawing->text, "  ");
	add_id(drawing, parent);
	appendStringInfoString(&drawing->text,
						   drawing->mermaid ? (continues ? " -.-> " : " --> ")
											: " -> ");
	add_id(drawing, child);
	if (!drawing->mermaid && continues)
		appendStringInfoString(&drawing->text, " [style=dashed]");
	appendStringInfoString(&drawing->text, drawing->mermaid ? "\n" : ";\n");
}

/* Draw compensations that exist or are still to be made. */
static void
draw_compensations(Drawing *drawing, const TqFlow *flow)
{
	TqStepRow *rows;
	int32     *left;
	int        count = tq_flow_compensations(flow, &rows);

	for (int i = 0; i < count; i++)
		draw_compensation(drawing, rows[i].step_id,
						  tq_state_name(rows[i].state), (Look) rows[i].state);
	if (count == 0)
		return;
	count = tq_compensation_left(flow, &left);
	for (int i = 0; i < count; i++)
		draw_compensation(drawing, TQ_STEP_COMPENSATION(left[i]), NULL,
						  LOOK_NOT_CREATED);
}

static void
draw_compensation(Drawing *drawing, int32 step_id, const char *words,
				  Look look)
{
	int   place = TQ_STEP_INDEX(step_id);
	int32 parent = TQ_STEP_COMPENSATED(step_id);

	CHECK_FOR_INTERRUPTS();
	if (parent != place && !is_unfolded(drawing, place))
		return;
	if (tq_flow_sees(tq_template_at(drawing->template, step_id)))
		draw_node(drawing, step_id, words, look);
	else
		draw_node(drawing, step_id, NULL, LOOK_UNKNOWN);
	draw_edge(drawing, parent, step_id);
}

/* Does each member have a node? */
static bool
is_unfolded(const Drawing *drawing, int place)
{
	const Made *made = &drawing->made[place];

	return drawing->template->steps[place].type == TQ_STEP_BATCH_WORKER &&
		   made->sees && made->count > 0 && made->count <= DRAWN_MEMBERS;
}

static void
add_id(Drawing *drawing, int32 step_id)
{
	appendStringInfo(&drawing->text, "%c%d",
					 TQ_STEP_COMPENSATES(step_id) ? 'c' : 'n',
					 TQ_STEP_INDEX(step_id));
	if (TQ_STEP_MEMBER(step_id) > 0)
		appendStringInfo(&drawing->text, "_%d", TQ_STEP_MEMBER(step_id));
}

/*
 * Append a word between double quotes.  Graphviz takes a backslash as the
 * begin of an escape and an ampersand as the begin of an entity.  Mermaid
 * knows only entities, and treats much of ASCII as markup.  So all of ASCII
 * except letters, digits, blanks and underscores becomes an entity.  These
 * bytes are not part of other characters in any encoding of a database.
 */
static void
add_quoted(Drawing *drawing, const char *word)
{
	StringInfo text = &drawing->text;

	for (const char *at = word; *at != '\0'; at++)
	{
		if (drawing->mermaid)
		{
			if (IS_HIGHBIT_SET(*at) || isalnum((unsigned char) *at) ||
				*at == ' ' || *at == '_')
				appendStringInfoChar(text, *at);
			else
				appendStringInfo(text, "#%d;", *at);
		}
		else if (*at == '&')
			appendStringInfoString(text, "&amp;");
		else
		{
			if (*at == '"' || *at == '\\')
				appendStringInfoChar(text, '\\');
			appendStringInfoChar(text, *at);
		}
	}
}

static void
end(Drawing *drawing)
{
	if (!drawing->mermaid)
	{
		appendStringInfoString(&drawing->text, "}\n");
		return;
	}
	for (int i = 0; i < LOOKS; i++)
		appendStringInfo(
			&drawing->text, "  classDef %s fill:%s,stroke:#6b7280%s\n",
			styles[i].name, styles[i].fill,
			i == LOOK_NOT_CREATED || i == LOOK_SKIPPED ? ",stroke-dasharray:4"
													   : "");
}
