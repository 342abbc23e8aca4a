/*
 * call/echo.c - what a server repeats in its words: inputs, and the key.
 *
 * Servers like to quote what they did not like.  Their words become error messages, and these are
 * written to logs that more people read than the table the input came from.  So what the words have
 * in common with the inputs of the request, from a dozen bytes on, is left out.  The same goes for
 * the key, from a few bytes on: words are cut, perhaps in the middle of it.
 *
 * Each place of the words is entered into a small table by a hash of the bytes that follow; the
 * inputs, which may be megabytes, are gone through once.
 */
#include "postgres.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/finish.h"
#include "call/memo.h"
#include "call/place.h"
#include "core/types.h"
#include "registry/registry.h"

#define WINDOW      12 /* bytes in common that are an echo */
#define WINDOW_BODY 24 /* ... of a raw body, which has names of models and parameters as well */
#define WINDOW_KEY  8  /* ... of a key */
#define WHOLE_INPUT 7  /* bytes from which on a whole input is one, too: as long as its mask */
#define MAX_WORDS   512
#define BUCKETS     1024

typedef struct Echo
{
	char *words;
	int len;
	int window; /* at least 8 */
	bool masked[MAX_WORDS];
	int16 first[BUCKETS];  /* place in the words, -1 = none */
	int16 next[MAX_WORDS]; /* of the same bucket */
} Echo;

static uint32
bucket_of(const char *bytes)
{
	uint64 start;

	memcpy(&start, bytes, sizeof(start));
	return (start * UINT64CONST(0x9E3779B97F4A7C15)) >> 54;
}

static void
enter_words(Echo *echo)
{
	memset(echo->first, 0xff, sizeof(echo->first));
	for (int at = 0; at + echo->window <= echo->len; at++)
	{
		uint32 bucket = bucket_of(echo->words + at);

		echo->next[at] = echo->first[bucket];
		echo->first[bucket] = (int16) at;
	}
}

static void
mark(Echo *echo, int at, int len)
{
	memset(echo->masked + at, true, len);
}

static void
search_input(Echo *echo, const char *input, size_t len)
{
	const char *found;

	for (size_t i = 0; i + echo->window <= len; i++)
	{
		for (int at = echo->first[bucket_of(input + i)]; at >= 0; at = echo->next[at])
		{
			if (memcmp(echo->words + at, input + i, echo->window) == 0)
				mark(echo, at, echo->window);
		}
	}
	if (len < WHOLE_INPUT || len >= (size_t) echo->window)
		return;
	for (int at = 0; (found = memmem(echo->words + at, echo->len - at, input, len)) != NULL;
		 at = found - echo->words + 1)
		mark(echo, found - echo->words, len);
}

/* A character that is masked in part is masked. */
static void
widen(Echo *echo)
{
	for (int at = echo->len - 1; at > 0; at--)
	{
		if (echo->masked[at] && ((unsigned char) echo->words[at] & 0xc0) == 0x80)
			echo->masked[at - 1] = true;
	}
	for (int at = 1; at < echo->len; at++)
	{
		if (echo->masked[at - 1] && ((unsigned char) echo->words[at] & 0xc0) == 0x80)
			echo->masked[at] = true;
	}
}

/* Writes mask, of at most WHOLE_INPUT bytes, for each stretch that is marked. */
static void
rewrite(Echo *echo, const char *mask)
{
	char *words = echo->words;
	int to = 0;

	widen(echo);
	for (int at = 0; at < echo->len;)
	{
		if (!echo->masked[at])
		{
			words[to++] = words[at++];
			continue;
		}
		memcpy(words + to, mask, strlen(mask));
		to += strlen(mask);
		while (at < echo->len && echo->masked[at])
			at++;
	}
	words[to] = '\0';
}

static Echo
start(char *words, int window)
{
	Echo echo = {.words = words, .len = Min(strlen(words), MAX_WORDS), .window = window};

	enter_words(&echo);
	return echo;
}

/* The key is read again for that, since nothing keeps it. */
static void
mask_key(const InferBatch *batch, char *words)
{
	char *header = NULL;
	char *unused = NULL;
	Echo echo;

	if (infer_registry_secret(batch->place->placement->server, batch->class->userid, &header,
							  &unused) != INFER_REASON_NONE ||
		header == NULL)
		return;
	echo = start(words, WINDOW_KEY);
	search_input(&echo, strrchr(header, ' ') + 1, strlen(strrchr(header, ' ') + 1));
	rewrite(&echo, "(key)");
	explicit_bzero(header, strlen(header));
	pfree(header);
}

void
infer_echo_mask(const InferBatch *batch, char *words)
{
	int window = batch->class->task == INFER_TASK_CALL ? WINDOW_BODY : WINDOW;
	Echo echo;

	if (words[0] == '\0')
		return;
	mask_key(batch, words);
	echo = start(words, window);
	for (int i = 0; i < batch->nanswers; i++)
		search_input(&echo, batch->answers[i]->input, batch->answers[i]->input_len);
	rewrite(&echo, "(input)");
}
