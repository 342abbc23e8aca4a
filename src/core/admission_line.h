/*
 * core/admission_line.h - the line of an admission key, for core/admission.c; what it is:
 * core/admission.h.
 */
#ifndef INFER_CORE_ADMISSION_LINE_H
#define INFER_CORE_ADMISSION_LINE_H

#include "core/admission.h"

/* Who was woken and has not tried for so long does not count. */
#define INFER_LINE_ABSENT_US 100000

/* Joins the line, or goes to the end of it if `again`. */
extern void infer_line_join(InferAdmission *a, InferAdmissionNode *nodes, int me,
							const InferAsk *ask, int want, bool again, int64_t now_us);
/* Nobody is kept back by it: it does not come when called, or waits for something else. */
extern bool infer_line_is_absent(const InferAdmissionNode *node, int64_t now_us);
extern bool infer_line_is_empty(const InferAdmission *a);
/* Deals `room` permits out to those of a higher priority than `rank`: node->share.  Returns what is
 * left for who comes last of `priority`. */
extern int infer_line_settle(InferAdmission *a, InferAdmissionNode *nodes, int room, int rank,
							 int priority, int64_t now_us);

#endif
