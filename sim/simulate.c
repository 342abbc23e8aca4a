/*
 * sim/simulate.c - the simulator by hand: many seeds, and pictures.
 *
 *   simulate --seeds N [--from M]    random worlds M .. M+N-1; prints those with a violation
 *   simulate --plot FILE.svg NAME    the curves of a scenario: J2 J3 J6 recovery instances
 *
 * The pictures: what each instance has in flight (lines), the server's slots (steps, grey), what
 * is at the server (dotted).  Time runs to the right, in seconds.
 */
#include "scenarios.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH  720
#define HEIGHT 240
#define LEFT   40
#define BOTTOM 24

static const char *const colours[MAX_INSTANCES] = {"#1f5fa8", "#c1440e", "#2e7d32", "#7b1fa2",
												   "#00838f", "#ad1457", "#6d4c41", "#37474f"};

typedef struct Scale
{
	int64_t from;
	double x; /* pixels a us */
	double y; /* pixels a request */
} Scale;

typedef double (*Reading)(const Sample *sample, int which);

static double
read_in_flight(const Sample *sample, int which)
{
	return sample->in_flight[which];
}

static double
read_slots(const Sample *sample, int which)
{
	(void) which;
	return sample->slots;
}

static double
read_at_server(const Sample *sample, int which)
{
	(void) which;
	return sample->at_server;
}

/* One point a pixel; the highest of those that fall on it. */
static void
draw(FILE *out, const World *w, Scale scale, Reading reading, int which, const char *style)
{
	double highest = 0;
	int pixel = 0;

	fprintf(out, "<polyline fill=\"none\" %s points=\"", style);
	for (int i = 0; i < w->nsamples; i++)
	{
		int x = (int) ((double) (w->samples[i].at - scale.from) * scale.x);
		double value = reading(&w->samples[i], which);

		if (x > pixel)
		{
			fprintf(out, "%d,%.1f ", LEFT + pixel, HEIGHT - BOTTOM - highest * scale.y);
			pixel = x;
			highest = value;
		}
		else if (value > highest)
			highest = value;
	}
	fprintf(out, "\"/>\n");
}

static Scale
fit(const World *w, double *seconds, double *most)
{
	Scale scale = {.from = w->samples[0].at};
	const Sample *last = &w->samples[w->nsamples - 1];

	*most = 1;
	for (int i = 0; i < w->nsamples; i++)
	{
		if (w->samples[i].slots > *most)
			*most = w->samples[i].slots;
		if (w->samples[i].at_server > *most)
			*most = w->samples[i].at_server;
	}
	*seconds = (double) (last->at - scale.from) / SECOND;
	scale.x = (WIDTH - LEFT - 10) / ((double) (last->at - scale.from) + 1);
	scale.y = (HEIGHT - BOTTOM - 10) / *most;
	return scale;
}

/* 1, 2 or 5 times a power of ten: four to ten of them make `most`. */
static double
step_of(double most)
{
	double step = pow(10, floor(log10(most / 4)));

	return most / step >= 20 ? step * 5 : most / step >= 10 ? step * 2 : step;
}

static bool
plot(const char *path, const char *title, const World *w)
{
	FILE *out = fopen(path, "w");
	double seconds;
	double most;
	Scale scale;
	char style[100];

	if (out == NULL)
	{
		perror(path);
		return false;
	}
	scale = fit(w, &seconds, &most);
	fprintf(out,
			"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
			"font-family=\"sans-serif\" font-size=\"11\">\n"
			"<title>%s</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
			WIDTH, HEIGHT, title);
	for (double value = 0; value <= most; value += step_of(most))
	{
		double y = HEIGHT - BOTTOM - value * scale.y;

		fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, WIDTH - 10);
		fprintf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 4, y + 4,
				value);
	}
	for (double value = 0; value <= seconds; value += step_of(seconds))
		fprintf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%g s</text>\n",
				LEFT + value * SECOND * scale.x, HEIGHT - 8, value);
	draw(out, w, scale, read_slots, 0, "stroke=\"#999\" stroke-width=\"2\"");
	if (w->ninstances > 1)
		draw(out, w, scale, read_at_server, 0, "stroke=\"#000\" stroke-dasharray=\"2 2\"");
	for (int i = 0; i < w->ninstances; i++)
	{
		snprintf(style, sizeof(style), "stroke=\"%s\" stroke-width=\"1.5\"", colours[i]);
		draw(out, w, scale, read_in_flight, i, style);
	}
	fprintf(out, "</svg>\n");
	return fclose(out) == 0;
}

static bool
plot_scenario(const char *path, const char *name)
{
	const Variant v = {.curves = true};
	bool plotted;

	if (strcmp(name, "J2") == 0)
		(void) job_J2(2000, &v);
	else if (strcmp(name, "J3") == 0)
		(void) job_J3(&v);
	else if (strcmp(name, "J6") == 0)
		(void) job_J6(20000, &v);
	else if (strcmp(name, "recovery") == 0)
		(void) recovery(8, 0, &v);
	else if (strcmp(name, "instances") == 0)
		(void) several_instances(4, 0, &(Variant){.curves = true, .jitter = 0.5});
	else
	{
		fprintf(stderr, "unknown scenario %s\n", name);
		return false;
	}
	plotted = plot(path, name, last_world);
	world_free(last_world);
	return plotted;
}

static bool
run_seeds(uint64_t from, uint64_t n)
{
	uint64_t broken = 0;
	int64_t events = 0;

	for (uint64_t seed = from; seed < from + n; seed++)
	{
		World *w = random_world(seed, MUTATION_NONE);

		events += w->events_done;
		if (w->violations > 0)
		{
			broken++;
			printf("seed %llu: %d violations, first: %s\n", (unsigned long long) seed,
				   w->violations, w->first_violation);
		}
		world_free(w);
	}
	printf("%llu seeds, %lld events, %llu with violations\n", (unsigned long long) n,
		   (long long) events, (unsigned long long) broken);
	return broken == 0;
}

int
main(int argc, char **argv)
{
	uint64_t from = 1;
	uint64_t seeds = 0;

	for (int i = 1; i < argc; i++)
	{
		if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc)
			seeds = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--from") == 0 && i + 1 < argc)
			from = strtoull(argv[++i], NULL, 10);
		else if (strcmp(argv[i], "--plot") == 0 && i + 2 < argc)
			return plot_scenario(argv[i + 1], argv[i + 2]) ? 0 : 1;
		else
			seeds = 0, i = argc;
	}
	if (seeds == 0)
	{
		fprintf(stderr, "usage: simulate --seeds N [--from M] | --plot FILE.svg NAME\n");
		return 2;
	}
	return run_seeds(from, seeds) ? 0 : 1;
}
