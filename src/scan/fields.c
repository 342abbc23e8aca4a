/*
 * scan/fields.c - where a finished plan's nodes keep their expressions.
 *
 * PostgreSQL has walkers for expressions, and for the states of plans, but none for the expressions
 * of a plan.  The list below names each field by node type, as setrefs.c does.  A node type that is
 * not in it is not understood: the caller must leave alone whatever depends on having seen all.
 */
#include "postgres.h"

#include "nodes/extensible.h"
#include "nodes/plannodes.h"

#include "scan/plan.h"
#include "scan/walk.h"

#define MAP(field) ((field) = (void *) map((Node *) (field), context))

static void
map_join(Plan *plan, InferMapExpr map, void *context)
{
	ListCell *lc;

	MAP(((Join *) plan)->joinqual);
	switch (nodeTag(plan))
	{
		case T_NestLoop:
			foreach (lc, ((NestLoop *) plan)->nestParams)
				MAP(lfirst_node(NestLoopParam, lc)->paramval);
			break;
		case T_MergeJoin:
			MAP(((MergeJoin *) plan)->mergeclauses);
			break;
		default:
			MAP(((HashJoin *) plan)->hashclauses);
			MAP(((HashJoin *) plan)->hashkeys);
			break;
	}
}

static void
map_index_scan(Plan *plan, InferMapExpr map, void *context)
{
	switch (nodeTag(plan))
	{
		case T_IndexScan:
			MAP(((IndexScan *) plan)->indexqual);
			MAP(((IndexScan *) plan)->indexqualorig);
			MAP(((IndexScan *) plan)->indexorderby);
			MAP(((IndexScan *) plan)->indexorderbyorig);
			break;
		case T_IndexOnlyScan:
			MAP(((IndexOnlyScan *) plan)->indexqual);
			MAP(((IndexOnlyScan *) plan)->recheckqual);
			MAP(((IndexOnlyScan *) plan)->indexorderby);
			MAP(((IndexOnlyScan *) plan)->indextlist);
			break;
		default:
			MAP(((BitmapIndexScan *) plan)->indexqual);
			MAP(((BitmapIndexScan *) plan)->indexqualorig);
			break;
	}
}

static void
map_modify_table(ModifyTable *node, InferMapExpr map, void *context)
{
	MAP(node->returningLists);
	MAP(node->withCheckOptionLists);
	MAP(node->onConflictSet);
	MAP(node->onConflictWhere);
	MAP(node->exclRelTlist);
	MAP(node->mergeActionLists);
#if PG_VERSION_NUM >= 170000
	MAP(node->mergeJoinConditions);
#endif
}

/* How an Append chooses among its children at run time; NULL if it does not. */
PartitionPruneInfo *
infer_prune_info(const PlannedStmt *stmt, const Plan *plan)
{
#if PG_VERSION_NUM >= 180000
	int index = IsA(plan, Append) ? ((const Append *) plan)->part_prune_index
								  : ((const MergeAppend *) plan)->part_prune_index;

	return index < 0 ? NULL : list_nth(stmt->partPruneInfos, index);
#else
	return IsA(plan, Append) ? ((const Append *) plan)->part_prune_info
							 : ((const MergeAppend *) plan)->part_prune_info;
#endif
}

static void
map_pruning(PartitionPruneInfo *info, InferMapExpr map, void *context)
{
	ListCell *lh;
	ListCell *lr;

	if (info == NULL)
		return;
	foreach (lh, info->prune_infos)
	{
		foreach (lr, (List *) lfirst(lh))
			MAP(lfirst_node(PartitionedRelPruneInfo, lr)->exec_pruning_steps);
	}
}

/* Scans that have expressions of their own. False: it is none of them. */
static bool
map_scan(Plan *plan, InferMapExpr map, void *context)
{
	switch (nodeTag(plan))
	{
		case T_SampleScan:
			MAP(((SampleScan *) plan)->tablesample);
			break;
		case T_IndexScan:
		case T_IndexOnlyScan:
		case T_BitmapIndexScan:
			map_index_scan(plan, map, context);
			break;
		case T_BitmapHeapScan:
			MAP(((BitmapHeapScan *) plan)->bitmapqualorig);
			break;
		case T_TidScan:
			MAP(((TidScan *) plan)->tidquals);
			break;
		case T_TidRangeScan:
			MAP(((TidRangeScan *) plan)->tidrangequals);
			break;
		case T_FunctionScan:
			MAP(((FunctionScan *) plan)->functions);
			break;
		case T_ValuesScan:
			MAP(((ValuesScan *) plan)->values_lists);
			break;
		case T_TableFuncScan:
			MAP(((TableFuncScan *) plan)->tablefunc);
			break;
		case T_ForeignScan:
			MAP(((ForeignScan *) plan)->fdw_exprs);
			MAP(((ForeignScan *) plan)->fdw_recheck_quals);
			MAP(((ForeignScan *) plan)->fdw_scan_tlist);
			break;
		default:
			return false;
	}
	return true;
}

/*
 * Puts map's answer in place of each expression of this node, not of those below it nor of its
 * InitPlans.  False if the node's type is not known.
 */
bool
infer_map_exprs(const PlannedStmt *stmt, Plan *plan, InferMapExpr map, void *context)
{
	MAP(plan->targetlist);
	MAP(plan->qual);
	switch (nodeTag(plan))
	{
		case T_ProjectSet:
		case T_RecursiveUnion:
		case T_BitmapAnd:
		case T_BitmapOr:
		case T_SeqScan:
		case T_SubqueryScan:
		case T_CteScan:
		case T_NamedTuplestoreScan:
		case T_WorkTableScan:
		case T_Material:
		case T_Sort:
		case T_IncrementalSort:
		case T_Group:
		case T_Agg:
		case T_Unique:
		case T_Gather:
		case T_GatherMerge:
		case T_SetOp:
		case T_LockRows:
			break;
		case T_Result:
			MAP(((Result *) plan)->resconstantqual);
			break;
		case T_ModifyTable:
			map_modify_table((ModifyTable *) plan, map, context);
			break;
		case T_Append:
		case T_MergeAppend:
			map_pruning(infer_prune_info(stmt, plan), map, context);
			break;
		case T_NestLoop:
		case T_MergeJoin:
		case T_HashJoin:
			map_join(plan, map, context);
			break;
		case T_Memoize:
			MAP(((Memoize *) plan)->param_exprs);
			break;
		case T_WindowAgg:
			MAP(((WindowAgg *) plan)->runCondition);
			MAP(((WindowAgg *) plan)->runConditionOrig);
			MAP(((WindowAgg *) plan)->startOffset);
			MAP(((WindowAgg *) plan)->endOffset);
			break;
		case T_Hash:
			MAP(((Hash *) plan)->hashkeys);
			break;
		case T_Limit:
			MAP(((Limit *) plan)->limitOffset);
			MAP(((Limit *) plan)->limitCount);
			break;
		case T_CustomScan:
			if (((CustomScan *) plan)->methods != &infer_scan_methods)
				return false;
			MAP(((CustomScan *) plan)->custom_exprs);
			MAP(((CustomScan *) plan)->custom_scan_tlist);
			break;
		default:
			return map_scan(plan, map, context);
	}
	return true;
}
