/*
 * http/headers.h - counts, times and character sets in the header of an answer.
 *
 * Text in, numbers out; whatever the server wrote, the result is -1 or within bounds.
 */
#ifndef INFER_HTTP_HEADERS_H
#define INFER_HTTP_HEADERS_H

#include <stdbool.h>
#include <stdint.h>

#define INFER_MAX_PAUSE_S 86400 /* nobody is asked to wait for longer than a day */

/* A count in decimal digits, at most INT64_MAX; -1 for anything else. */
extern int64_t infer_header_count(const char *text);
/* Microseconds of a time such as "1h2m", "6m0s", "1.5s", "20ms" or "3" (seconds), at most a day;
 * -1 = unreadable. */
extern int64_t infer_header_time_us(const char *text);
/* Milliseconds from now_s (seconds since 1970) to what a Retry-After says, in seconds or as a
 * date, between 0 and a day; -1 = unreadable. */
extern int64_t infer_header_retry_after_ms(const char *text, int64_t now_s);

/* Does a Content-Type say that the body is in ISO 8859-1? */
extern bool infer_header_is_latin1(const char *text);

#endif
