/*
 * check_template.c
 *		taskq_check(): the steps of all templates, as rows.
 *
 * The view taskq.flow_problem compares steps and edges with the graphs of
 * their templates in one statement, so that it sees a single moment, however
 * many instances are live.  A template that can no longer be read gives one
 * row without a position.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "utils/builtins.h"

#include "base/spi.h"
#include "base/srf.h"
#include "base/subxact.h"
#include "flow/definition/definition.h"
#include "flow/definition/template.h"
#include "flow/instance/flow_types.h"
#include "flow/instance/step_rule.h"
#include "flow/run/step_plan.h"

PG_FUNCTION_INFO_V1(taskq_template_form);

static TqStmt stmt_templates = {
	"SELECT template_id::bigint FROM taskq.template"};

#define COLUMNS 10

/* A template to be listed. */
typedef struct Form
{
	ReturnSetInfo *result;
	int32          template_id;
	TqTemplate *template;
} Form;

static void read_template(void *arg);
static void add_rows(const Form *form);
static bool has_time(const TqStep *step);

Datum
taskq_template_form(PG_FUNCTION_ARGS)
{
	Form   form = {(ReturnSetInfo *) fcinfo->resultinfo};
	int64 *ids;
	uint64 rows;
	TqSpi  spi;

	tq_srf_begin(fcinfo);
	tq_spi_enter(&spi);
	rows = tq_spi_read(&stmt_templates, NULL, NULL, 0);
	ids = tq_spi_ids(&spi, rows, 1);
	tq_spi_leave(&spi);
	for (uint64 i = 0; i < rows; i++)
	{
		CHECK_FOR_INTERRUPTS();
		form.template_id = (int32) ids[i];
		if (tq_subxact_run(read_template, &form) == NULL)
			add_rows(&form);
		else
		{
			Datum values[COLUMNS] = {Int32GetDatum(form.template_id)};
			bool  nulls[COLUMNS];

			memset(nulls, true, sizeof(nulls));
			nulls[0] = false;
			tq_srf_add(form.result, values, nulls);
		}
	}
	return (Datum) 0;
}

static void
read_template(void *arg)
{
	Form *form = arg;

	form->template = tq_template_get(form->template_id);
}

static void
add_rows(const Form *form)
{
	const TqTemplate *template = form->template;
	bool  *first = palloc0(sizeof(bool) * (template->step_count + 1));
	TqFlow flow = {0};
	TqPlan plan = {0};

	flow.template = form->template;
	tq_step_plan_start(&flow, &plan);
	for (int i = 0; i < plan.count; i++)
		first[TQ_STEP_INDEX(plan.steps[i].step_id)] = true;
	for (int i = 0; i < template->step_count; i++)
	{
		const TqStep *step = &template->steps[i];
		Datum         values[COLUMNS];
		bool          nulls[COLUMNS] = {false};

		values[0] = Int32GetDatum(template->template_id);
		values[1] = Int32GetDatum(i);
		values[2] = CStringGetTextDatum(tq_definition_step_type(step->type));
		values[3] = BoolGetDatum(first[i]);
		values[4] = BoolGetDatum(step->ends);
		values[5] = BoolGetDatum(tq_step_rule_is_excused(template, i));
		values[6] = BoolGetDatum(has_time(step));
		values[7] =
			tq_spi_int4_array(step->children.places, step->children.count);
		values[9] = BoolGetDatum(step->continues);
		nulls[8] = step->wait == NULL || step->wait->signal == NULL;
		values[8] = nulls[8] ? (Datum) 0
							 : CStringGetTextDatum(step->wait->signal);
		tq_srf_add(form->result, values, nulls);
	}
}

/* Does it wait for a time, or have a timeout? */
static bool
has_time(const TqStep *step)
{
	return step->wait != NULL &&
		   (step->wait->after != NULL || step->wait->at != NULL);
}
