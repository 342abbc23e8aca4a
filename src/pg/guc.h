/*
 * pg/guc.h - the settings pg_inference.*, as C variables.
 *
 * Read-only outside guc.c; sorted by name.
 */
#ifndef INFER_PG_GUC_H
#define INFER_PG_GUC_H

#include "core/types.h"

typedef enum InferOnError
{
	INFER_ON_ERROR_FAIL,
	INFER_ON_ERROR_NULL
} InferOnError;

/* Text that is no text in UTF-8, or that the database's encoding lacks. */
typedef enum InferInvalidText
{
	INFER_INVALID_TEXT_ERROR,
	INFER_INVALID_TEXT_REPLACE
} InferInvalidText;

/* An answer that ends at a limit of tokens. */
typedef enum InferTruncated
{
	INFER_TRUNCATED_ERROR,
	INFER_TRUNCATED_ACCEPT
} InferTruncated;

/* Answers of one statement that come from several incarnations of a server. */
typedef enum InferMixed
{
	INFER_MIXED_ALLOW,
	INFER_MIXED_ERROR,
	INFER_MIXED_RETRY
} InferMixed;

typedef enum InferHoistCalls
{
	INFER_HOIST_OFF,
	INFER_HOIST_EXACT,
	INFER_HOIST_ON
} InferHoistCalls;

extern int infer_guc_all_failed_wait;    /* user, ms, 1 s */
extern bool infer_guc_allow_inline_keys; /* superuser, off */
extern char *infer_guc_allowed_hosts; /* superuser, ''; comma-separated patterns; empty = loopback
										 and what servers name */
extern int infer_guc_buffer_memory;   /* user, kB, 32 MB */
extern int infer_guc_call_cost;       /* user, 10000 */
extern int infer_guc_congestion_max_window;      /* user, 0 = 1024 */
extern int infer_guc_congestion_min_window;      /* user, 1 */
extern double infer_guc_congestion_step_coef;    /* user, 1 */
extern int infer_guc_connect_timeout;            /* user, ms, 5 s */
extern int infer_guc_daily_call_budget;          /* superuser, 0 = off */
extern double infer_guc_daily_cost_budget;       /* superuser, 0 = off */
extern int infer_guc_daily_token_budget;         /* superuser, 0 = off */
extern int infer_guc_delivery;                   /* user, InferDelivery, single */
extern int infer_guc_dispatch_batch_size;        /* user, -1 */
extern int infer_guc_dns_ttl;                    /* reload, ms, 60 s; 0 = off */
extern bool infer_guc_enable;                    /* user, on */
extern int infer_guc_epic_timeout;               /* user, ms, 10 min */
extern int infer_guc_epic_weight;                /* reload, 2 */
extern int infer_guc_failure_cooldown;           /* superuser, ms, 1 s */
extern int infer_guc_failure_patience;           /* user, ms, 5 s */
extern int infer_guc_failure_threshold;          /* superuser, 3; 0 = off */
extern bool infer_guc_gateway;                   /* postmaster, on */
extern bool infer_guc_hedge;                     /* user, off */
extern int infer_guc_hedge_delay;                /* user, ms, 50 */
extern int infer_guc_hoist_calls;                /* user, InferHoistCalls, exact */
extern int infer_guc_invalid_text;               /* user, InferInvalidText, error */
extern bool infer_guc_limiter_adaptive;          /* superuser, on */
extern bool infer_guc_limiter_dry_run;           /* superuser, off */
extern double infer_guc_limiter_decrease_factor; /* superuser, 0.5 */
extern int infer_guc_limiter_max_limit;          /* superuser, 0 = none */
extern double infer_guc_limiter_min_limit;       /* superuser, 1; below 1 paces */
extern int infer_guc_limiter_start;              /* superuser, 16 */
extern char *infer_guc_locality;                 /* user, "" = nowhere */
extern int infer_guc_long_timeout;               /* user, ms, 20 s */
extern int infer_guc_long_weight;                /* reload, 1 */
extern int infer_guc_max_admission_keys;         /* postmaster, 256 */
extern int infer_guc_max_attempts;               /* user, 4 */
extern int infer_guc_max_duration_weight;        /* reload, 2 */
extern double infer_guc_max_error_ratio;         /* user, 1 = any number may fail */
extern int infer_guc_max_response_size;          /* user, kB, 64 MB */
extern int infer_guc_max_servers;                /* postmaster, 1024 */
extern int infer_guc_max_usage_entries;          /* postmaster, 2048 */
extern int infer_guc_medium_timeout;             /* user, ms, 5 s */
extern int infer_guc_memo_memory;                /* user, kB, 16 MB */
extern int infer_guc_mixed_incarnations;         /* user, InferMixed, allow */
extern bool infer_guc_observed_costs;            /* user, on */
extern int infer_guc_on_error;                   /* user, InferOnError */
extern bool infer_guc_place_calls;               /* user, off */
extern bool infer_guc_plan_time_calls;           /* user; enum allow (true) | error (false) */
extern double infer_guc_price_seconds;           /* user, 1000 */
extern int infer_guc_priority;                   /* user, InferPriority, NORMAL */
extern int infer_guc_probe_connect_timeout;      /* reload, ms, 1 s */
extern int infer_guc_probe_interval;             /* reload, ms, 5 s; 0 = off */
extern int infer_guc_random_seed;                /* user, 0 = none */
extern int infer_guc_request_timeout;            /* user, ms, 60 s */
extern int infer_guc_retained_memory;            /* user, kB, 64 MB */
extern int infer_guc_retry;                      /* user, InferRetryPolicy, not_admitted */
extern int infer_guc_retry_budget;               /* superuser, per cent, 20; 100 = off */
extern char *infer_guc_routing;                  /* user, jsonb text, {} */
extern int infer_guc_short_timeout;              /* user, ms, 2 s */
extern int infer_guc_stage1_retries;             /* user, 2 */
extern int infer_guc_stage2_retries;             /* user, 2 */
extern int infer_guc_statement_call_budget; /* user, 0 = off; calls sent (attempts not counted) */
extern double infer_guc_statement_cost_budget; /* user, 0 = off */
extern int infer_guc_statement_token_budget;   /* user, 0 = off; guessed, then as answers report */
extern int infer_guc_streaming_mode;           /* user, InferStreamingMode */
extern double infer_guc_test_percent;          /* user, 50 */
extern char *infer_guc_traceparent;            /* user, W3C Trace Context, none */
extern int infer_guc_timer_interval;           /* reload, ms, 1 s */
extern int infer_guc_truncated;                /* user, InferTruncated, error */
extern int infer_guc_usage_day_offset;         /* superuser, days, 0 */
extern int infer_guc_usage_save_interval;      /* reload, ms, 10 s */

/* True once the library was loaded by shared_preload_libraries of this postmaster. */
extern bool infer_preloaded;

extern void infer_guc_init(void); /* from _PG_init; settings sorted by name */

/* Raises "pg_inference must be loaded with shared_preload_libraries" with the line to add, unless
 * preloaded. */
extern void infer_require_preload(void);

#endif
