/* sample.h: text written by the model. */
#pragma once

#include <weft/weft.h>

/** Generate and print `count` bytes that go on from `prompt`; every rank computes, rank 0 prints.
 */
weft_status sample_text(weft_module *gpt, const unsigned char *prompt, int prompt_bytes, int count,
                        int context, uint64_t seed);
