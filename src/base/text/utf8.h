/* utf8.h: which bytes are text, and text as a terminal can show it. */
#pragma once

#include <stddef.h>

/** Length of the sequence at `text`, of which `room` bytes are there; 0 when it is none (overlong
 * forms, surrogates and what lies beyond U+10FFFF are none). */
size_t wf_utf8_sequence_length(const char *text, size_t room);

/** Bytes before the first that is no UTF-8; `bytes` when all is well. */
size_t wf_utf8_valid_prefix(const char *text, size_t bytes);

/**
 * Copy text with control characters and what is no UTF-8 written as \n, \t, \r or \x1b: what a file
 * says is shown in a message and does nothing. Cut, between characters, where there is no room.
 * gives: `out`
 */
char *wf_utf8_escape_control(char *out, size_t room, const char *text);
