/*
 * provider/openai_text.c - the text in an answer of chat/completions or completions.
 *
 * It is choices[0].message.content, a string or a list of parts whose texts are joined, or
 * choices[0].text of the older shape.
 *
 * A text counts only if the model came to its end.  Why it stopped stands in finish_reason, which
 * many servers leave out, and in which each may have words of its own; so only those words count
 * that say that something is missing:
 *
 *	length, max_tokens, model_length	TRUNCATED; what there is, is kept for those who take it
 *	content_filter						FILTERED
 *	refusal, or a refusal in the message	REFUSED, with the model's words
 *	error, abort						INCOMPLETE_REPLY: the server broke off
 *
 * A message without text that calls tools is a TOOL_CALL; with text, the text is the answer.  No
 * choice, or no text for no such reason, is a MISSING_RESULT.  All of them were executed.
 */
#include "provider/internal.h"

#include <stdlib.h>

bool
infer_openai_words(InferJson *j, InferSlice *words)
{
	InferSlice string;

	if (infer_json_peek(j) != '"')
		return infer_json_value(j, NULL);
	if (!infer_json_string(j, &string))
		return false;
	if (string.len > 0)
		*words = string;
	return true;
}

bool
infer_openai_tools(InferJson *j, bool *calls_tools)
{
	InferSlice value;
	InferJson inside;

	if (!infer_json_value(j, &value))
		return false;
	inside = infer_json_start(value.data + 1, value.len - 1);
	if (value.data[0] == '{' || (value.data[0] == '[' && infer_json_peek(&inside) != ']'))
		*calls_tools = true;
	return true;
}

static bool
message_member(void *arg, const InferSlice *key, InferJson *j)
{
	InferOpenaiChoice *choice = arg;

	if (infer_json_key_is(key, "content"))
		return infer_json_value(j, &choice->content);
	if (infer_json_key_is(key, "refusal"))
		return infer_openai_words(j, &choice->refusal);
	if (infer_json_key_is(key, "tool_calls") || infer_json_key_is(key, "function_call"))
		return infer_openai_tools(j, &choice->calls_tools);
	return infer_json_value(j, NULL);
}

static bool
choice_member(void *arg, const InferSlice *key, InferJson *j)
{
	InferOpenaiChoice *choice = arg;

	if (infer_json_key_is(key, "message"))
		return infer_json_members(j, message_member, choice);
	if (infer_json_key_is(key, "text"))
		return infer_json_value(j, &choice->text);
	if (infer_json_key_is(key, "finish_reason"))
		return infer_openai_words(j, &choice->finish);
	return infer_json_value(j, NULL);
}

/* The list of choices; only the first one matters. */
static bool
read_choices(InferJson *j, InferOpenaiChoice *choice)
{
	InferJsonStep step;
	bool first = true;
	bool seen = false;

	infer_json_open(j, '[');
	while ((step = infer_json_next_element(j, &first)) == INFER_JSON_ITEM)
	{
		if (!(seen ? infer_json_value(j, NULL) : infer_json_members(j, choice_member, choice)))
			return false;
		seen = true;
	}
	return step == INFER_JSON_DONE;
}

bool
infer_openai_part(const InferSlice *part, InferSlice *text, InferSlice *refusal)
{
	InferJson j = infer_json_start(part->data, part->len);
	InferSlice key;
	bool first = true;
	bool shown = true;
	bool found = false;

	if (infer_json_peek(&j) == '"')
		return infer_json_string(&j, text);
	if (!infer_json_open(&j, '{'))
		return false;
	while (infer_json_next_member(&j, &first, &key) == INFER_JSON_ITEM)
	{
		if (infer_json_peek(&j) != '"')
		{
			infer_json_value(&j, NULL);
			continue;
		}
		if (infer_json_key_is(&key, "text"))
			found = infer_json_string(&j, text);
		else if (infer_json_key_is(&key, "refusal"))
			infer_openai_words(&j, refusal);
		else
		{
			InferSlice value;

			infer_json_string(&j, &value);
			if (infer_json_key_is(&key, "type"))
				shown =
					infer_json_key_is(&value, "text") || infer_json_key_is(&value, "output_text");
		}
	}
	return found && shown;
}

/* Joins the texts of a list of parts (a valid array) into the item. False: no memory. */
static bool
join_parts(InferReply *reply, InferItem *item, const InferSlice *list, InferSlice *refusal)
{
	InferArena *arena = reply->arena;
	InferJson j = infer_json_start(list->data, list->len);
	unsigned faults = INFER_TEXT_FINE;
	bool first = true;
	bool any = false;
	size_t len = 0;

	/* decoded texts are never longer than what they were written as, unless they are repaired */
	arena->text = malloc(list->len * (reply->repair ? INFER_REPLACEMENT_GROWTH : 1) + 1);
	if (arena->text == NULL)
		return false;
	infer_json_open(&j, '[');
	while (infer_json_next_element(&j, &first) == INFER_JSON_ITEM)
	{
		InferSlice part;
		InferSlice text;
		size_t n;

		if (!infer_json_value(&j, &part))
			break;
		if (!infer_openai_part(&part, &text, refusal))
			continue;
		any = true;
		if (reply->repair)
			n = infer_json_decode_repaired(&text, arena->text + len);
		else
			faults |= infer_json_decode(&text, arena->text + len, &n);
		len += n;
	}
	if (!any)
		item->reason = INFER_REASON_MISSING_RESULT;
	else if (faults != INFER_TEXT_FINE)
	{
		item->reason = INFER_REASON_MALFORMED_REPLY;
		item->text_has_nul = (faults & INFER_TEXT_HAS_NUL) != 0;
	}
	else
	{
		item->text = arena->text;
		item->text_len = len;
	}
	return true;
}

/* False: no memory. */
static bool
set_text(InferReply *reply, InferOpenaiChoice *choice)
{
	InferItem *item = &reply->items[0];
	const InferSlice *value = &choice->content;

	if (value->data == NULL)
		value = &choice->text;
	if (value->data != NULL && value->data[0] == '"')
	{
		InferJson j = infer_json_start(value->data, value->len);
		InferSlice string;

		infer_json_string(&j, &string);
		return infer_item_set_text(reply, item, &string);
	}
	if (value->data != NULL && value->data[0] == '[')
		return join_parts(reply, item, value, &choice->refusal);
	item->reason = INFER_REASON_MISSING_RESULT;
	return true;
}

static bool
finished_by(const InferOpenaiChoice *choice, const char *const words[])
{
	for (; *words != NULL; words++)
		if (choice->finish.data != NULL && infer_json_key_is(&choice->finish, *words))
			return true;
	return false;
}

/* What the choice says of its text, which is set as far as there is one. */
static void
judge(InferReply *reply, const InferOpenaiChoice *choice)
{
	static const char *const truncated[] = {"length", "max_tokens", "model_length", NULL};
	static const char *const filtered[] = {"content_filter", NULL};
	static const char *const refused[] = {"refusal", NULL};
	static const char *const broken[] = {"error", "abort", NULL};
	static const char *const tools[] = {"tool_calls", "function_call", NULL};
	InferItem *item = &reply->items[0];

	if (finished_by(choice, filtered))
		item->reason = INFER_REASON_FILTERED;
	else if (choice->refusal.data != NULL || finished_by(choice, refused))
	{
		item->reason = INFER_REASON_REFUSED;
		if (choice->refusal.data != NULL)
			infer_show_string(&choice->refusal, reply->words, sizeof(reply->words));
	}
	else if (finished_by(choice, broken))
		item->reason = INFER_REASON_INCOMPLETE_REPLY;
	else if (item->reason == INFER_REASON_MALFORMED_REPLY)
		return;
	else if (finished_by(choice, truncated))
		item->reason = INFER_REASON_TRUNCATED;
	else if (item->text_len == 0 && (choice->calls_tools || finished_by(choice, tools)))
		item->reason = INFER_REASON_TOOL_CALL;
}

bool
infer_openai_take_choice(InferReply *reply, InferOpenaiChoice *choice)
{
	if (!set_text(reply, choice))
		return false;
	judge(reply, choice);
	return true;
}

/* What is read of an answer. */
typedef struct Answer
{
	InferReply *reply;
	InferOpenaiChoice choice;
	bool has_choices;
} Answer;

static bool
answer_member(void *arg, const InferSlice *key, InferJson *j)
{
	Answer *answer = arg;

	if (infer_json_key_is(key, "choices") && infer_json_peek(j) == '[')
	{
		answer->has_choices = true;
		answer->choice = (InferOpenaiChoice){.content = {0}};
		return read_choices(j, &answer->choice);
	}
	if (infer_json_key_is(key, "usage"))
		return infer_reply_read_usage(answer->reply, j);
	return infer_json_value(j, NULL);
}

bool
infer_openai_parse_text(InferJson *body, InferReply *reply, InferFault *fault)
{
	Answer answer = {.reply = reply};

	if (infer_json_peek(body) != '{')
		return infer_fault(fault, INFER_REASON_MALFORMED_REPLY, "the answer is no JSON object");
	if (!infer_json_members(body, answer_member, &answer))
		return infer_fault_json(fault);
	if (!answer.has_choices)
		return infer_fault(fault, INFER_REASON_MALFORMED_REPLY,
						   "the answer has no list named \"choices\"");
	return infer_openai_take_choice(reply, &answer.choice) || infer_fault_memory(fault);
}
