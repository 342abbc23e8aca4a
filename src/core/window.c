/*
 * core/window.c - the driver window.  What it does and why: core/window.h.
 */
#include "core/window.h"

#include <math.h>

#define BASELINE_WEIGHT 0.1
#define LEAST_GRADIENT  0.5
#define OVERLOAD_FACTOR 0.5
#define MOST            ((int64_t) 1 << 53) /* a double counts that far */
/* Slow start takes this for a rise of latency, not for noise. */
#define RISING_GRADIENT 0.75

static int64_t
clamp(int64_t value, int64_t least, int64_t most)
{
	return value < least ? least : value > most ? most : value;
}

InferWindowConfig
infer_window_reference(bool per_row, int64_t max)
{
	InferWindowConfig config = {.min = 1, .step_coef = 1.0, .grows_idle = true};

	config.max = max > 0 ? max : per_row ? 100 : 256;
	config.start = per_row ? config.max : 2;
	return config;
}

static void
drop_group(InferWindow *w)
{
	w->count = 0;
	w->fastest = 0;
	w->sum = 0;
	w->squares = 0;
	w->used = false;
}

void
infer_window_init(InferWindow *w, const InferWindowConfig *config)
{
	InferWindowConfig c = *config;

	c.max = clamp(c.max, 1, MOST);
	c.min = clamp(c.min, 1, c.max);
	c.start = clamp(c.start, c.min, c.max);
	c.latency_floor = clamp(c.latency_floor, c.min, c.max);
	if (!(c.step_coef > 0))
		c.step_coef = 0;

	*w = (InferWindow){.config = c, .size = (double) c.start, .slow_start = c.slow_start};
	w->least = c.start;
	drop_group(w);
}

int64_t
infer_window_limit(const InferWindow *w)
{
	return (int64_t) floor(w->size);
}

/* Sets the size and counts a fall of what callers see. */
static bool
resize(InferWindow *w, double size, double least)
{
	int64_t before = infer_window_limit(w);
	int64_t after;

	if (size < least)
		size = least;
	if (size > (double) w->config.max)
		size = (double) w->config.max;
	w->size = size;
	after = infer_window_limit(w);
	if (after < w->least)
		w->least = after;
	if (after >= before)
		return false;
	w->shrinks++;
	return true;
}

/* The baseline follows; the plain mean of the first groups, where means are compared. */
static void
follow(InferWindow *w, int64_t observed)
{
	double weight = BASELINE_WEIGHT;

	w->groups++;
	if (w->groups == 1 || (w->config.means && weight * (double) w->groups < 1))
		weight = 1.0 / (double) w->groups;
	w->baseline = (int64_t) ((1 - weight) * (double) w->baseline + weight * (double) observed);
	if (w->baseline < 1)
		w->baseline = 1;
}

/* A whole group: compare it with the baseline, and follow it. */
static void
close_group(InferWindow *w)
{
	double mean = w->sum / (double) w->count;
	double variance = w->squares / (double) w->count - mean * mean;
	double observed = (double) w->fastest;
	double sure = observed;
	bool used = w->used || w->config.grows_idle;
	double gradient = 1;
	double size;
	double least = (double) w->config.latency_floor;

	if (w->config.means)
	{
		observed = mean;
		sure = mean - 2 * sqrt((variance > 0 ? variance : 0) / (double) w->count);
	}
	drop_group(w);
	if (w->baseline == 0)
	{
		follow(w, (int64_t) observed);
		return;
	}
	if (sure > (double) w->baseline)
		gradient = (double) w->baseline / sure;
	if (gradient < LEAST_GRADIENT)
		gradient = LEAST_GRADIENT;
	follow(w, (int64_t) observed);
	if (w->slow_start && gradient > RISING_GRADIENT)
		return; /* grows answer by answer */
	w->slow_start = false;
	size = w->size * gradient + w->config.step_coef * sqrt(w->size);
	if (size > w->size && !used)
		return;
	if (least > w->size)
		least = w->size; /* overload went below: latency takes nothing more */
	resize(w, size, least);
}

void
infer_window_sample(InferWindow *w, int64_t rtt, int64_t in_flight)
{
	bool used = in_flight >= infer_window_limit(w) - in_flight;

	if (rtt <= 0)
		return;
	if (w->count == 0)
	{
		w->group = INFER_WINDOW_GROUP;
		if (w->config.means && infer_window_limit(w) > w->group)
			w->group = infer_window_limit(w);
		if (w->config.means && w->baseline == 0)
			w->group *= 2;
	}
	if (w->count == 0 || rtt < w->fastest)
		w->fastest = rtt;
	w->sum += (double) rtt;
	w->squares += (double) rtt * (double) rtt;
	w->used |= used;
	if (w->slow_start && w->used)
		resize(w, w->size + 1, w->size);
	if (++w->count >= w->group)
		close_group(w);
}

bool
infer_window_overload(InferWindow *w, uint32_t epoch)
{
	if (epoch != w->epoch)
		return false;
	w->epoch++;
	w->slow_start = false;
	drop_group(w);
	if (resize(w, w->size * OVERLOAD_FACTOR, (double) w->config.min))
		w->overload_shrinks++;
	return true;
}
