/*
 * task_fdw.c
 *		taskq.task_scan: all tasks that current_user may see, as a table.
 *
 * The views of tasks select from this foreign table.  It makes a condition on
 * a queue or a state, an order by id and a limit work as they do in
 * taskq_list, regardless of the planner's estimates for seventeen leaves: the
 * planner passes what it needs to this code, and query/task_page.c finds the
 * rows.
 *
 * The scan never returns rows that current_user may not see, and sets columns
 * that it may not read to null. current_user is determined when the scan
 * begins.  The server also tests the conditions itself: pushing them down only
 * serves performance.
 *
 * Copyright (c) 2026, the taskq developers
 */
#include "base/compat.h"

#include "access/table.h"
#include "catalog/pg_operator.h"
#include "catalog/pg_opfamily.h"
#include "catalog/pg_type.h"
#include "commands/explain.h"
#include "fmgr.h"
#include "foreign/fdwapi.h"
#include "lib/stringinfo.h"
#include "nodes/makefuncs.h"
#include "nodes/nodeFuncs.h"
#include "optimizer/optimizer.h"
#include "optimizer/pathnode.h"
#include "optimizer/paths.h"
#include "optimizer/plancat.h"
#include "optimizer/planmain.h"
#include "optimizer/restrictinfo.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/selfuncs.h"
#include "utils/snapmgr.h"

#include "base/catalog.h"
#include "base/compare.h"
#include "base/types.h"
#include "cache/queue.h"
#include "query/id_heap.h"
#include "query/task_filter.h"
#include "query/task_filter_read.h"
#include "query/task_info.h"
#include "query/task_page.h"
#include "query/task_search.h"
#include "query/visibility.h"

#define FIRST_PAGE 100
#define LAST_PAGE 10000
#define ROW_COST 0.05
#define LOOK_UP_COST 10
#define MAX_LISTED                                                            \
	(MaxAllocSize / sizeof(Datum)) /* the number above minus one */

PG_FUNCTION_INFO_V1(taskq_scan_handler);

/* Conditions that the scan uses: comparisons of a column with a value. */
typedef enum Taken
{
	TAKEN_QUEUE,
	TAKEN_STATE,
	TAKEN_REFERENCE,
	TAKEN_KEY,
	TAKEN_CORRELATION,
	TAKEN_ID_BELOW,
	TAKEN_ID_UP_TO,
	TAKEN_ID,
	TAKEN_ID_FROM,
	TAKEN_ID_ABOVE,
	TAKEN_IDS
} Taken;

static const char *const taken_names[] = {
	"queue =",          "state =",   "reference =",  "key =",
	"correlation_id =", "task_id <", "task_id <=",   "task_id =",
	"task_id >=",       "task_id >", "task_id = ANY"};

/* fdw_private of a plan: three lists of integers. */
typedef enum Private
{
	PRIVATE_TAKEN,   /* a Taken for each of fdw_exprs */
	PRIVATE_WANTED,  /* columns, from 0 */
	PRIVATE_BACKWARD /* one element */
} Private;

typedef struct TaskScan
{
	TqTaskPage   *find;
	TqInfo        info;
	TqTaskFilter  filter;
	List         *values; /* states of expressions */
	List         *taken;
	bool          backward;
	bool          reads_row; /* needs more than the id */
	bool          started;   /* the filter has been read */
	bool          finished;  /* there are no more pages */
	TqFound      *page;
	int           count;
	int           next;
	int           max;
	MemoryContext page_context;
	MemoryContext row_context;
} TaskScan;

static void         get_size(PlannerInfo *root, RelOptInfo *rel, Oid relid);
static void         get_paths(PlannerInfo *root, RelOptInfo *rel, Oid relid);
static ForeignScan *get_plan(PlannerInfo *root, RelOptInfo *rel, Oid relid,
							 ForeignPath *path, List *tlist, List *clauses,
							 Plan *outer);
static void         begin_scan(ForeignScanState *node, int flags);
static TupleTableSlot *iterate_scan(ForeignScanState *node);
static void            rescan(ForeignScanState *node);
static void            end_scan(ForeignScanState *node);
static void            explain_scan(ForeignScanState *node, ExplainState *es);
static double          tasks_in_all(void);
static bool  take(RelOptInfo *rel, Expr *clause, int *taken, Expr **value);
static bool  take_list(RelOptInfo *rel, ScalarArrayOpExpr *op, int *taken,
					   Expr **value);
static int   column_of(RelOptInfo *rel, Expr *expr);
static List *wanted_columns(RelOptInfo *rel);
static void  read_filter(ForeignScanState *node, TaskScan *scan);
static void  apply(TaskScan *scan, Taken taken, Oid type, Datum value);
static void  apply_word(TaskScan *scan, Taken taken, const char *word);
static void  apply_ids(TaskScan *scan, Oid type, Datum value);
static int64 int_of(Oid type, Datum value);
static void  nothing(TaskScan *scan);
static bool  next_page(TaskScan *scan);

Datum
taskq_scan_handler(PG_FUNCTION_ARGS)
{
	FdwRoutine *routine = makeNode(FdwRoutine);

	routine->GetForeignRelSize = get_size;
	routine->GetForeignPaths = get_paths;
	routine->GetForeignPlan = get_plan;
	routine->BeginForeignScan = begin_scan;
	routine->IterateForeignScan = iterate_scan;
	routine->ReScanForeignScan = rescan;
	routine->EndForeignScan = end_scan;
	routine->ExplainForeignScan = explain_scan;
	PG_RETURN_POINTER(routine);
}

static void
get_size(PlannerInfo *root, RelOptInfo *rel, Oid relid)
{
	double    rows = tasks_in_all();
	ListCell *cell;
	bool      one = false;

	rel->tuples = rows;
	foreach (cell, rel->baserestrictinfo)
	{
		int   taken;
		Expr *value;

		if (take(rel, lfirst_node(RestrictInfo, cell)->clause, &taken, &value))
			one = one || taken == TAKEN_ID;
	}
	rows *= clauselist_selectivity(root, rel->baserestrictinfo, 0, JOIN_INNER,
								   NULL);
	rel->rows = one ? 1 : clamp_row_est(rows);
}

/*
 * Two paths: by ascending and by descending id.  Both are always offered,
 * since a query of a security barrier view does not pass down which one it
 * needs.
 */
static void
get_paths(PlannerInfo *root, RelOptInfo *rel, Oid relid)
{
	Var *id =
		makeVar(rel->relid, TQ_INFO_TASK_ID + 1, INT8OID, -1, InvalidOid, 0);
	EquivalenceClass *class = tq_compat_sort_class(
		root, (Expr *) id, list_make1_oid(INTEGER_BTREE_FAM_OID), INT8OID,
		rel->relids);
	Cost total = LOOK_UP_COST +
				 rel->rows * (ROW_COST + rel->baserestrictcost.per_tuple);

	for (int falling = 0; falling <= 1; falling++)
	{
		PathKey *key = make_canonical_pathkey(
			root, class, INTEGER_BTREE_FAM_OID,
			falling ? TQ_SORT_FALLING : TQ_SORT_RISING, falling);

		add_path(rel, (Path *) tq_compat_foreign_path(
						  root, rel, rel->rows, LOOK_UP_COST, total,
						  list_make1(key), list_make1_int(falling)));
	}
}

static ForeignScan *
get_plan(PlannerInfo *root, RelOptInfo *rel, Oid relid, ForeignPath *path,
		 List *tlist, List *clauses, Plan *outer)
{
	List     *kinds = NIL;
	List     *values = NIL;
	ListCell *cell;

	foreach (cell, clauses)
	{
		int   taken;
		Expr *value;

		if (take(rel, lfirst_node(RestrictInfo, cell)->clause, &taken, &value))
		{
			kinds = lappend_int(kinds, taken);
			values = lappend(values, value);
		}
	}
	return make_foreignscan(
		tlist, extract_actual_clauses(clauses, false), rel->relid, values,
		list_make3(kinds, wanted_columns(rel), path->fdw_private), NIL, NIL,
		outer);
}

static void
begin_scan(ForeignScanState *node, int flags)
{
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	EState      *estate = node->ss.ps.state;
	TaskScan    *scan;
	ListCell    *cell;

	if (node->ss.ss_currentRelation->rd_att->natts != TQ_SCAN_COLUMNS)
		ereport(
			ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("foreign table \"%s\" is not taskq.task_scan",
					RelationGetRelationName(node->ss.ss_currentRelation))));
	scan = palloc0(sizeof(TaskScan));
	node->fdw_state = scan;
	scan->taken = list_nth(plan->fdw_private, PRIVATE_TAKEN);
	scan->backward =
		linitial_int(list_nth(plan->fdw_private, PRIVATE_BACKWARD)) != 0;
	scan->values = ExecInitExprList(plan->fdw_exprs, (PlanState *) node);
	scan->max = FIRST_PAGE;
	if (flags & EXEC_FLAG_EXPLAIN_ONLY)
		return;
	tq_queue_refresh();
	tq_task_info_begin(&scan->info);
	memset(scan->info.wanted, false, sizeof(scan->info.wanted));
	foreach (cell, (List *) list_nth(plan->fdw_private, PRIVATE_WANTED))
	{
		scan->info.wanted[lfirst_int(cell)] = true;
		scan->reads_row = scan->reads_row ||
						  lfirst_int(cell) != TQ_INFO_TASK_ID;
	}
	scan->find = tq_task_page_begin(estate->es_snapshot);
	scan->page_context = AllocSetContextCreate(
		CurrentMemoryContext, "taskq page", ALLOCSET_DEFAULT_SIZES);
	scan->row_context = AllocSetContextCreate(
		CurrentMemoryContext, "taskq row", ALLOCSET_DEFAULT_SIZES);
}

static TupleTableSlot *
iterate_scan(ForeignScanState *node)
{
	TaskScan       *scan = node->fdw_state;
	TupleTableSlot *slot = node->ss.ss_ScanTupleSlot;
	MemoryContext   mine;

	ExecClearTuple(slot);
	if (!scan->started)
		read_filter(node, scan);
	if (scan->next >= scan->count && !next_page(scan))
		return slot;
	MemoryContextReset(scan->row_context);
	mine = MemoryContextSwitchTo(scan->row_context);
	if (scan->reads_row)
	{
		TqTask task;

		tq_task_page_read(scan->find, &scan->page[scan->next], &task);
		PushActiveSnapshot(tq_task_page_snapshot(scan->find));
		tq_task_info_row(&scan->info, &task, slot->tts_values,
						 slot->tts_isnull);
		PopActiveSnapshot();
	}
	else
	{
		memset(slot->tts_isnull, true, sizeof(bool) * TQ_SCAN_COLUMNS);
		slot->tts_isnull[TQ_INFO_TASK_ID] = false;
		slot->tts_values[TQ_INFO_TASK_ID] =
			Int64GetDatum(scan->page[scan->next].task_id);
	}
	MemoryContextSwitchTo(mine);
	scan->next++;
	return ExecStoreVirtualTuple(slot);
}

static void
rescan(ForeignScanState *node)
{
	TaskScan *scan = node->fdw_state;

	scan->started = false;
	scan->finished = false;
	scan->next = scan->count = 0;
	scan->max = FIRST_PAGE;
}

static void
end_scan(ForeignScanState *node)
{
	TaskScan *scan = node->fdw_state;

	if (scan != NULL && scan->find != NULL)
		tq_task_page_end(scan->find);
}

/* Show what the scan handles itself. */
static void
explain_scan(ForeignScanState *node, ExplainState *es)
{
	TaskScan      *scan = node->fdw_state;
	StringInfoData words;
	ListCell      *cell;

	initStringInfo(&words);
	foreach (cell, scan->taken)
		appendStringInfo(&words, "%s%s", words.len > 0 ? ", " : "",
						 taken_names[lfirst_int(cell)]);
	if (words.len > 0)
		ExplainPropertyText("Tasks Where", words.data, es);
	ExplainPropertyText("Tasks By Id", scan->backward ? "falling" : "rising",
						es);
}

/* As far as the server's statistics know. */
static double
tasks_in_all(void)
{
	const TqCatalog *catalog = tq_catalog();
	double           sum = 0;

	for (int t = 0; t < TQ_FOUND_TABLES; t++)
	{
		Relation rel = tq_catalog_open_table(
			t == TQ_FOUND_LIVE ? catalog->task : catalog->leaf[t],
			AccessShareLock);
		BlockNumber pages = 0;
		double      rows = 0;
		double      visible = 0;

		estimate_rel_size(rel, NULL, &pages, &rows, &visible);
		sum += rows;
		table_close(rel, NoLock);
	}
	return Max(sum, 1);
}

/*
 * Is the clause a comparison that the scan can use: of a column with a value
 * that does not change during the scan?
 */
static bool
take(RelOptInfo *rel, Expr *clause, int *taken, Expr **value)
{
	OpExpr *op = (OpExpr *) clause;
	Expr   *left;
	Oid     opno;
	int     column;

	if (IsA(clause, ScalarArrayOpExpr))
		return take_list(rel, (ScalarArrayOpExpr *) clause, taken, value);
	if (!IsA(clause, OpExpr) || list_length(op->args) != 2)
		return false;
	left = linitial(op->args);
	*value = lsecond(op->args);
	opno = op->opno;
	if (column_of(rel, left) < 0)
	{
		left = *value;
		*value = linitial(op->args);
		opno = get_commutator(opno);
	}
	column = column_of(rel, left);
	if (column < 0 || contain_var_clause((Node *) *value) ||
		contain_volatile_functions((Node *) *value))
		return false;
	if (column == TQ_INFO_TASK_ID)
	{
		int strategy = get_op_opfamily_strategy(opno, INTEGER_BTREE_FAM_OID);

		*taken = TAKEN_ID_BELOW + strategy - BTLessStrategyNumber;
		return strategy != 0;
	}
	if (opno != TextEqualOperator || !OidIsValid(op->inputcollid) ||
		!get_collation_isdeterministic(op->inputcollid))
		return false;
	switch (column)
	{
		case TQ_INFO_QUEUE:
			*taken = TAKEN_QUEUE;
			return true;
		case TQ_INFO_STATE:
			*taken = TAKEN_STATE;
			return true;
		case TQ_INFO_REFERENCE:
			*taken = TAKEN_REFERENCE;
			return true;
		case TQ_INFO_KEY:
			*taken = TAKEN_KEY;
			return true;
		case TQ_INFO_CORRELATION_ID:
			*taken = TAKEN_CORRELATION;
			return true;
		default:
			return false;
	}
}

/* task_id = ANY (...), also written as IN. */
static bool
take_list(RelOptInfo *rel, ScalarArrayOpExpr *op, int *taken, Expr **value)
{
	*taken = TAKEN_IDS;
	*value = lsecond(op->args);
	return op->useOr &&
		   column_of(rel, linitial(op->args)) == TQ_INFO_TASK_ID &&
		   get_op_opfamily_strategy(op->opno, INTEGER_BTREE_FAM_OID) ==
			   BTEqualStrategyNumber &&
		   !contain_var_clause((Node *) *value) &&
		   !contain_volatile_functions((Node *) *value);
}

/*
 * Return the column, from 0, that an expression refers to; -1 for anything
 * else.
 */
static int
column_of(RelOptInfo *rel, Expr *expr)
{
	Var *var;

	while (IsA(expr, RelabelType))
		expr = ((RelabelType *) expr)->arg;
	var = (Var *) expr;
	if (!IsA(expr, Var) || var->varno != rel->relid || var->varlevelsup != 0 ||
		var->varattno <= 0)
		return -1;
	return var->varattno - 1;
}

static List *
wanted_columns(RelOptInfo *rel)
{
	Bitmapset *attributes = NULL;
	ListCell  *cell;
	List      *wanted = NIL;
	int        whole_row = -FirstLowInvalidHeapAttributeNumber;

	pull_varattnos((Node *) rel->reltarget->exprs, rel->relid, &attributes);
	foreach (cell, rel->baserestrictinfo)
		pull_varattnos((Node *) lfirst_node(RestrictInfo, cell)->clause,
					   rel->relid, &attributes);
	for (int c = 0; c < TQ_SCAN_COLUMNS; c++)
	{
		if (bms_is_member(whole_row, attributes) ||
			bms_is_member(whole_row + c + 1, attributes))
			wanted = lappend_int(wanted, c);
	}
	return wanted;
}

/* Evaluate the values that conditions compare with. */
static void
read_filter(ForeignScanState *node, TaskScan *scan)
{
	ExprContext *econtext = node->ss.ps.ps_ExprContext;
	ForeignScan *plan = (ForeignScan *) node->ss.ps.plan;
	ListCell    *kind;
	ListCell    *state;
	ListCell    *expr;

	tq_task_filter_init(&scan->filter);
	tq_task_filter_restrict(&scan->filter, &scan->info.sight);
	scan->filter.backward = scan->backward;
	forthree(kind, scan->taken, state, scan->values, expr, plan->fdw_exprs)
	{
		bool  isnull;
		Datum value =
			ExecEvalExpr((ExprState *) lfirst(state), econtext, &isnull);

		if (isnull)
			nothing(scan);
		else
			apply(scan, lfirst_int(kind), exprType(lfirst(expr)), value);
	}
	scan->started = true;
}

static void
apply(TaskScan *scan, Taken taken, Oid type, Datum value)
{
	TqTaskFilter *filter = &scan->filter;
	MemoryContext mine = MemoryContextSwitchTo(GetMemoryChunkContext(scan));

	switch (taken)
	{
		case TAKEN_ID_BELOW:
			if (int_of(type, value) == PG_INT64_MIN)
				nothing(scan);
			else
				filter->last = Min(filter->last, int_of(type, value) - 1);
			break;
		case TAKEN_ID_UP_TO:
			filter->last = Min(filter->last, int_of(type, value));
			break;
		case TAKEN_ID:
			filter->first = Max(filter->first, int_of(type, value));
			filter->last = Min(filter->last, int_of(type, value));
			break;
		case TAKEN_ID_FROM:
			filter->first = Max(filter->first, int_of(type, value));
			break;
		case TAKEN_ID_ABOVE:
			if (int_of(type, value) == PG_INT64_MAX)
				nothing(scan);
			else
				filter->first = Max(filter->first, int_of(type, value) + 1);
			break;
		case TAKEN_IDS:
			apply_ids(scan, type, value);
			break;
		default:
			apply_word(scan, taken, TextDatumGetCString(value));
	}
	MemoryContextSwitchTo(mine);
}

static void
apply_word(TaskScan *scan, Taken taken, const char *word)
{
	TqTaskFilter *filter = &scan->filter;
	TqQueue      *queue;
	TqState       state;

	switch (taken)
	{
		case TAKEN_QUEUE:
			queue = tq_queue_find(word);
			if (queue == NULL ||
				(!scan->info.sight.all &&
				 !tq_visibility_observes(&scan->info.sight, queue->queue_id)))
			{
				nothing(scan);
				break;
			}
			filter->all_queues = false;
			filter->queues = palloc(sizeof(int32));
			filter->queues[0] = queue->queue_id;
			filter->queue_count = 1;
			break;
		case TAKEN_STATE:
			if (!tq_state_parse(word, &state))
				nothing(scan);
			else
				tq_task_filter_states(filter, TQ_STATE_BIT(state));
			break;
		case TAKEN_REFERENCE:
			tq_task_filter_read_word(filter, &filter->reference, word);
			break;
		case TAKEN_KEY:
			tq_task_filter_read_word(filter, &filter->key, word);
			break;
		default:
			tq_task_filter_read_word(filter, &filter->correlation_id, word);
	}
}

static void
apply_ids(TaskScan *scan, Oid type, Datum value)
{
	ArrayType *array = DatumGetArrayTypeP(value);
	Oid        element = get_element_type(type);
	int16      width;
	bool       by_value;
	char       alignment;
	Datum     *items;
	bool      *nulls;
	int        count;
	int        kept = 0;
	int64     *ids;

	if (ArrayGetNItems(ARR_NDIM(array), ARR_DIMS(array)) >= MAX_LISTED)
		ereport(ERROR, (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
						errmsg("list of task ids has more than %d elements",
							   (int) MAX_LISTED - 1)));
	get_typlenbyvalalign(element, &width, &by_value, &alignment);
	deconstruct_array(array, element, width, by_value, alignment, &items,
					  &nulls, &count);
	ids = palloc(sizeof(int64) * (count + 1));
	for (int i = 0; i < count; i++)
	{
		if (!nulls[i])
			ids[kept++] = int_of(element, items[i]);
	}
	qsort(ids, kept, sizeof(int64), tq_order_int64);
	count = 0;
	for (int i = 0; i < kept; i++)
	{
		if (i == 0 || ids[i] != ids[i - 1])
			ids[count++] = ids[i];
	}
	scan->filter.ids = ids;
	scan->filter.id_count = count;
}

static int64
int_of(Oid type, Datum value)
{
	switch (type)
	{
		case INT2OID:
			return DatumGetInt16(value);
		case INT4OID:
			return DatumGetInt32(value);
		default:
			return DatumGetInt64(value);
	}
}

/* No row can match. */
static void
nothing(TaskScan *scan)
{
	scan->filter.first = PG_INT64_MAX;
	scan->filter.last = PG_INT64_MIN;
}

/* The first page is small: most queries need no more. */
static bool
next_page(TaskScan *scan)
{
	MemoryContext mine;

	if (scan->finished)
		return false;
	if (scan->count > 0)
		tq_task_filter_after(&scan->filter,
							 scan->page[scan->count - 1].task_id);
	MemoryContextReset(scan->page_context);
	mine = MemoryContextSwitchTo(scan->page_context);
	scan->count =
		tq_task_search_page(scan->find, &scan->filter, scan->max, &scan->page);
	MemoryContextSwitchTo(mine);
	scan->next = 0;
	scan->finished = scan->count < scan->max;
	scan->max = Min(scan->max * 4, LAST_PAGE);
	return scan->count > 0;
}
