/*
 * permits - what taking a permit and giving it back costs, inside PostgreSQL and without a request.
 *
 * SELECT permits(key, ceiling, n, hold) takes and gives back n permits of an admission key with a
 * fixed limit, waits where there is none, and returns {wall us, CPU us} a permit of its own
 * process. With hold it lets other processes run while it has the permit, so that they find none.
 * Not part of the extension: it calls pg_inference's library, which must be preloaded, and whose
 * functions are to be seen from outside only as PostgreSQL 15 builds extensions.
 */
#include "postgres.h"

#include <sched.h>
#include <sys/resource.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "catalog/pg_type.h"
#include "utils/wait_event.h"

#include "pg/clock.h"
#include "shmem/admission.h"

PG_MODULE_MAGIC;
PG_FUNCTION_INFO_V1(permits);

static double
cpu_us(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
		   (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static void
take(InferKey key, InferTicket *ticket)
{
	const InferAsk ask = {
		.want = 1, .priority = INFER_PRIORITY_NORMAL, .lasts_us = 60000000, .wait = true};

	while (infer_admission_try_acquire(key, &ask, ticket) == 0)
	{
		int64 alarm = infer_admission_alarm(key);
		int64 now = infer_now_us();
		long ms = alarm > now + 1000000 ? 1000 : (long) Max((alarm - now + 999) / 1000, 0);

		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, ms,
						 PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

Datum
permits(PG_FUNCTION_ARGS)
{
	int32 ceiling = PG_GETARG_INT32(1);
	int32 n = PG_GETARG_INT32(2);
	bool hold = PG_GETARG_BOOL(3);
	InferAdmissionConfig config = {
		.limiter = {
			.ceiling = ceiling, .floor = 1, .decrease_factor = 0.5, .rules = INFER_RULES_ALL}};
	const InferOutcome outcome = {.verdict = INFER_VERDICT_SUCCESS,
								  .rtt_us = 1000,
								  .units = 1,
								  .retry_after_us = -1,
								  .left = -1};
	const InferRateNews news = {
		.tokens = -1, .requests = {-1, -1}, .remaining_tokens = {-1, -1}, .retry_after_us = -1};
	bool conflict = false;
	InferKey key = infer_admission_key(text_to_cstring(PG_GETARG_TEXT_PP(0)), &config,
									   &(InferConfigurer){0}, &conflict);
	double cpu = cpu_us();
	int64 begun = infer_now_us();
	Datum result[2];

	if (key < 0 || n < 1)
		elog(ERROR, "no room in the table of admission keys, or nothing to do");
	for (int i = 0; i < n; i++)
	{
		InferTicket ticket;

		take(key, &ticket);
		if (hold)
			sched_yield();
		infer_admission_release(key, &ticket, &outcome, &news);
	}
	infer_admission_wait_end(key);
	result[0] = Float8GetDatum((double) (infer_now_us() - begun) / n);
	result[1] = Float8GetDatum((cpu_us() - cpu) / n);
	PG_RETURN_ARRAYTYPE_P(
		construct_array(result, 2, FLOAT8OID, sizeof(float8), FLOAT8PASSBYVAL, TYPALIGN_DOUBLE));
}
