/*
 * call/idempotency.c - the key by which a server can tell that it has seen a request before.
 *
 * The key stands for the call, not for the attempt: it is a hash of what is asked, of whom, and of
 * an identity: with the option idempotency_key true, a number of this statement's own, so that
 * another statement is another call; with a text, that text, so that a statement that is run again
 * after a crash repeats its keys.  What is asked in other words, or with other inputs (the halves
 * of a batch), is another call: a server would refuse the old key for it.  So what may have run,
 * and is repeated for its key alone, is repeated word for word, and at the server that has seen the
 * key (core/stages).  Where it goes is no part of it, so that two doors to one server know it for
 * the same.
 *
 * Only hexadecimal digits get into the header, whatever the option says.
 */
#include "postgres.h"

#include "common/cryptohash.h"
#include "common/sha2.h"

#include "call/batch.h"
#include "call/class.h"
#include "call/finish.h"
#include "call/memo.h"
#include "call/place.h"
#include "call/retry.h"
#include "core/types.h"
#include "provider/provider.h"

/* Adds a field with its length, so that no two lists of fields look the same. */
static bool
add(pg_cryptohash_ctx *hash, const void *data, uint64 len)
{
	return pg_cryptohash_update(hash, (const uint8 *) &len, sizeof(len)) >= 0 &&
		   pg_cryptohash_update(hash, data, len) >= 0;
}

static bool
add_text(pg_cryptohash_ctx *hash, const char *text)
{
	return add(hash, text, strlen(text));
}

static bool
add_call(pg_cryptohash_ctx *hash, const InferBatch *batch)
{
	const InferClass *class = batch->class;
	const char *text = class->options.idempotency_key;
	bool base64 = infer_place_base64(batch->place);
	uint64 statement = text != NULL ? 0 : infer_memo_id(class->memo);
	bool ok = add(hash, &statement, sizeof(statement)) && add_text(hash, text ? text : "") &&
			  add_text(hash, class->places[0].placement->server->url) &&
			  add_text(hash, class->options.path) && add_text(hash, infer_task_name(class->task)) &&
			  add_text(hash, batch->place->remote_model) &&
			  add_text(hash, class->parameters_json) && add(hash, &base64, sizeof(base64));

	for (int i = 0; ok && i < batch->nanswers; i++)
		ok = add(hash, batch->answers[i]->input, batch->answers[i]->input_len);
	return ok;
}

/*
 * Makes the header of a batch whose body is new, if its calls ask for one; repeated attempts keep
 * theirs with their body.  False: it could not be made, and the batch has been failed.
 */
bool
infer_idempotency_prepare(InferBatch *batch)
{
	uint8 digest[PG_SHA256_DIGEST_LENGTH];
	pg_cryptohash_ctx *hash;
	char *end = batch->key_header;
	bool ok;

	if (!batch->class->options.idempotent)
		return true;
	hash = pg_cryptohash_create(PG_SHA256);
	ok = hash != NULL && pg_cryptohash_init(hash) >= 0 && add_call(hash, batch) &&
		 pg_cryptohash_final(hash, digest, sizeof(digest)) >= 0;
	pg_cryptohash_free(hash);
	if (!ok)
	{
		infer_finish_fail(batch, INFER_REASON_INTERNAL, INFER_NOT_ADMITTED, 0,
						  "the idempotency key could not be computed");
		return false;
	}
	end += snprintf(end, sizeof(batch->key_header),
					"%s: ", infer_provider_idempotency_header(batch->place->provider));
	for (int i = 0; i < sizeof(digest); i++)
		end += sprintf(end, "%02x", digest[i]);
	return true;
}
