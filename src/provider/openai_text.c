/*
 * provider/openai_text.c - the text in an answer of chat/completions or completions.
 *
 * It is choices[0].message.content, a string or a list of parts whose texts are joined, or
 * choices[0].text of the older shape.  No choice, or a content that is null or absent (the model
 * called a tool, or refused), is a MISSING_RESULT: executed, no usable answer.
 */
#include "provider/internal.h"

#include <stdlib.h>

/* What was found in the first choice; data NULL = nothing yet. */
typedef struct Choice
{
	InferSlice content; /* a value: string or array */
	InferSlice text;    /* likewise */
} Choice;

static bool
read_message(InferJson *j, Choice *choice)
{
	InferJsonStep step;
	InferSlice key;
	bool first = true;

	if (infer_json_peek(j) != '{')
		return infer_json_value(j, NULL);
	infer_json_open(j, '{');
	while ((step = infer_json_next_member(j, &first, &key)) == INFER_JSON_ITEM)
	{
		bool wanted = infer_json_key_is(&key, "content");

		if (!infer_json_value(j, wanted ? &choice->content : NULL))
			return false;
	}
	return step == INFER_JSON_DONE;
}

static bool
read_choice(InferJson *j, Choice *choice)
{
	InferJsonStep step;
	InferSlice key;
	bool first = true;

	if (infer_json_peek(j) != '{')
		return infer_json_value(j, NULL);
	infer_json_open(j, '{');
	while ((step = infer_json_next_member(j, &first, &key)) == INFER_JSON_ITEM)
	{
		bool ok;

		if (infer_json_key_is(&key, "message"))
			ok = read_message(j, choice);
		else if (infer_json_key_is(&key, "text"))
			ok = infer_json_value(j, &choice->text);
		else
			ok = infer_json_value(j, NULL);
		if (!ok)
			return false;
	}
	return step == INFER_JSON_DONE;
}

/* The list of choices; only the first one matters. */
static bool
read_choices(InferJson *j, Choice *choice)
{
	InferJsonStep step;
	bool first = true;
	bool seen = false;

	infer_json_open(j, '[');
	while ((step = infer_json_next_element(j, &first)) == INFER_JSON_ITEM)
	{
		if (!(seen ? infer_json_value(j, NULL) : read_choice(j, choice)))
			return false;
		seen = true;
	}
	return step == INFER_JSON_DONE;
}

/* One part of a content list: its text, if it is of a kind that is shown. part is a valid value. */
static bool
part_text(const InferSlice *part, InferSlice *text)
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
join_parts(InferReply *reply, InferItem *item, const InferSlice *list)
{
	InferArena *arena = reply->arena;
	InferJson j = infer_json_start(list->data, list->len);
	unsigned faults = INFER_TEXT_FINE;
	bool first = true;
	bool any = false;
	size_t len = 0;

	/* decoded texts are never longer than what they were written as */
	arena->text = malloc(list->len + 1);
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
		if (!part_text(&part, &text))
			continue;
		any = true;
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
set_item(InferReply *reply, const Choice *choice)
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
		return join_parts(reply, item, value);
	item->reason = INFER_REASON_MISSING_RESULT;
	return true;
}

bool
infer_openai_parse_text(InferJson *body, InferReply *reply, InferFault *fault)
{
	Choice choice = {.content = {0}};
	InferJsonStep step;
	InferSlice key;
	bool first = true;
	bool has_choices = false;

	if (!infer_json_open(body, '{'))
		return infer_fault(fault, INFER_REASON_MALFORMED_REPLY, "the answer is no JSON object");
	while ((step = infer_json_next_member(body, &first, &key)) == INFER_JSON_ITEM)
	{
		bool ok;

		if (infer_json_key_is(&key, "choices") && infer_json_peek(body) == '[')
		{
			has_choices = true;
			choice = (Choice){.content = {0}};
			ok = read_choices(body, &choice);
		}
		else if (infer_json_key_is(&key, "usage"))
			ok = infer_reply_read_usage(reply, body);
		else
			ok = infer_json_value(body, NULL);
		if (!ok)
			return infer_fault_json(fault);
	}
	if (step == INFER_JSON_BROKEN)
		return infer_fault_json(fault);
	if (!has_choices)
		return infer_fault(fault, INFER_REASON_MALFORMED_REPLY,
						   "the answer has no list named \"choices\"");
	if (!set_item(reply, &choice))
		return infer_fault_memory(fault);
	return true;
}
