/* settings.c - what the server can be told, by name. */
#include "mockd.h"

struct settings set;

const struct number_setting number_settings[] = {
#define X(name, def, min, max, help) {#name, &set.name, def, min, max, help},
    SETTINGS(X)
#undef X
#define X(name, help) {"fault_" #name, &set.fault[FAULT_##name], 0, 0, 100, "% of requests: " help},
    FAULTS(X)
#undef X
};
const size_t number_settings_count = ARRAY_LEN(number_settings);

const struct string_setting string_settings[] = {
    {"reply", set.reply, sizeof set.reply, "words", "completion text: words, echo, yesno or json"},
    {"embed", set.embed, sizeof set.embed, "hash", "embeddings: hash (unrelated to the text) or ngram (similar texts are near)"},
    {"redirect_to", set.redirect_to, sizeof set.redirect_to, "http://127.0.0.1:5432/", "where fault redirect points"},
    {"refusals", set.refusals, sizeof set.refusals, "418", "statuses of fault status, separated by commas"},
    {"failures", set.failures, sizeof set.failures, "500", "statuses of fault donestatus, separated by commas"},
    {"incarnation", set.incarnation, sizeof set.incarnation, "", "if not empty, which run of the server this is: header X-Incarnation (HTTP/1.1), system_fingerprint, a metric"},
    {"api_key", set.api_key, sizeof set.api_key, "", "if not empty, 'Authorization: Bearer KEY' is required"},
};
const size_t string_settings_count = ARRAY_LEN(string_settings);

const char *const fault_names[FAULT_end] = {"none",
#define X(name, help) #name,
    FAULTS(X)
#undef X
};

bool setting_apply(const char *name, const char *value)
{
    for (size_t i = 0; i < number_settings_count; i++) {
        const struct number_setting *s = &number_settings[i];
        char *end;
        if (strcmp(s->name, name)) continue;
        double v = strtod(value, &end);
        if (end == value || *end || !(v >= s->min && v <= s->max)) return false;
        if (s->where == &set.slots) on_slots_change();
        *s->where = v;
        return true;
    }
    for (size_t i = 0; i < string_settings_count; i++) {
        const struct string_setting *s = &string_settings[i];
        if (strcmp(s->name, name)) continue;
        if (strlen(value) >= s->size) return false;
        memset(s->where, 0, s->size);
        memcpy(s->where, value, strlen(value));
        return true;
    }
    return false;
}

void settings_default(void)
{
    for (size_t i = 0; i < number_settings_count; i++) *number_settings[i].where = number_settings[i].def;
    for (size_t i = 0; i < string_settings_count; i++) setting_apply(string_settings[i].name, string_settings[i].def);
}

void settings_print(struct buf *b)
{
    buf_str(b, "{");
    for (size_t i = 0; i < number_settings_count; i++)
        buf_fmt(b, "\"%s\":%.15g,", number_settings[i].name, *number_settings[i].where);
    buf_fmt(b, "\"reply\":\"%s\",\"embed\":\"%s\",\"api_key_required\":%s}\n", set.reply, set.embed, set.api_key[0] ? "true" : "false");
}
