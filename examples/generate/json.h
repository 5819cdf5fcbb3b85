/* json.h: walking through JSON text that is taken to be well formed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** Enter an object or array whose `open` stands next; false when something else does. */
bool json_enter(const char **at, char open);

/** True while there is another entry before the closing bracket, which is passed over. */
bool json_more(const char **at);

/** A string, as UTF-8, cut where `room` ends; false when none stands next. */
bool json_string(const char **at, char *out, size_t room);

/** An entry's name and its colon. */
bool json_key(const char **at, char *out, size_t room);

/** A whole number; 0 for anything else. */
long json_number(const char **at);

/** Pass over a value of any kind; false when the text ends before it does. */
bool json_skip(const char **at);

/** The value of a name in the object at `json`; NULL when there is none. */
const char *json_find(const char *json, const char *name);
