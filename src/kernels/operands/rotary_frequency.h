/* rotary_frequency.h: by how much rotary positions turn each pair of a head's elements. */
#pragma once

#include "kernels/op_attrs.h"

/** The frequencies of attrs->dims / 2 pairs, with Llama's scaling for long contexts. */
void wf_rotary_frequencies(double *frequency, const struct wf_rotary_attrs *attrs);
