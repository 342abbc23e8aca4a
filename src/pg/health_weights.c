/*
 * pg/health_weights.c - what a server counts for the health of its node, by its service class.
 *
 * The setting is a list, "chat=20, embed=5".  It is taken apart when it is set, into what
 * PostgreSQL keeps with the value: classes one after the other, each with its weight.
 */
#include "postgres.h"

#include <math.h>

#include "utils/guc.h"

#include "pg/health_weights.h"

#define MOST_WEIGHTS 64

typedef struct Weight
{
	char service_class[NAMEDATALEN];
	double weight;
} Weight;

typedef struct Weights
{
	int n;
	Weight weights[MOST_WEIGHTS];
} Weights;

static char *setting = NULL;
static const Weights *current = NULL; /* PostgreSQL's, with the setting */

/* 16 (commit 407b50f2d421) keeps it in a memory context of its own. */
static Weights *
new_weights(void)
{
#if PG_VERSION_NUM >= 160000
	Weights *weights = guc_malloc(LOG, sizeof(Weights));
#else
	Weights *weights = malloc(sizeof(Weights));
#endif

	if (weights != NULL)
		memset(weights, 0, sizeof(*weights));
	return weights;
}

static void
free_weights(Weights *weights)
{
#if PG_VERSION_NUM >= 160000
	guc_free(weights);
#else
	free(weights);
#endif
}

/* "class = weight", of len bytes; false if it is not. */
static bool
read_weight(const char *item, size_t len, Weight *weight)
{
	char text[NAMEDATALEN + 32];
	char *equals;
	char *end;
	size_t name_len;

	if (len >= sizeof(text))
		return false;
	memcpy(text, item, len);
	text[len] = '\0';
	equals = strrchr(text, '=');
	if (equals == NULL)
		return false;
	name_len = equals - text;
	while (name_len > 0 && isspace((unsigned char) text[name_len - 1]))
		name_len--;
	if (name_len == 0 || name_len >= NAMEDATALEN)
		return false;
	memcpy(weight->service_class, text, name_len);
	errno = 0;
	weight->weight = strtod(equals + 1, &end);
	while (isspace((unsigned char) *end))
		end++;
	return end != equals + 1 && *end == '\0' && errno == 0 && isfinite(weight->weight) &&
		   weight->weight >= 0 && weight->weight <= 1000000;
}

/* Fills *weights, or returns what is wrong. */
static const char *
read_weights(const char *text, Weights *weights)
{
	const char *item = text;

	while (isspace((unsigned char) *item))
		item++;
	while (*item != '\0')
	{
		size_t len = strcspn(item, ",");

		if (weights->n == MOST_WEIGHTS)
			return "There are more than 64 service classes.";
		if (!read_weight(item, len, &weights->weights[weights->n]))
			return "It is a list of service classes and numbers from 0 to 1000000, as in "
				   "\"chat=20, embed=5\".";
		weights->n++;
		item += len;
		if (*item == ',' && *++item == '\0')
			return "It ends with a comma.";
		while (isspace((unsigned char) *item))
			item++;
	}
	return NULL;
}

static bool
check(char **newval, void **extra, GucSource source)
{
	Weights *weights = new_weights();
	const char *problem;

	if (weights == NULL)
		return false;
	problem = read_weights(*newval, weights);
	if (problem != NULL)
	{
		free_weights(weights);
		GUC_check_errdetail("%s", problem);
		return false;
	}
	*extra = weights;
	return true;
}

static void
assign(const char *newval, void *extra)
{
	current = extra;
}

double
infer_health_weight(const char *service_class)
{
	for (int i = 0; current != NULL && i < current->n; i++)
		if (strcmp(current->weights[i].service_class, service_class) == 0)
			return current->weights[i].weight;
	return INFER_HEALTH_WEIGHT;
}

void
infer_health_weights_define(void)
{
	DefineCustomStringVariable("pg_inference.health_weights",
							   "What servers count for the health of their node, by service class.",
							   "As in \"chat=20, embed=5\". Classes that are not named count 10.",
							   &setting, "", PGC_SIGHUP, 0, check, assign, NULL);
}
