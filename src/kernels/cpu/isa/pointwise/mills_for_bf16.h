/* mills_for_bf16.h: the polynomial of gelu of bf16, on CPUs and GPUs: tools/fit_vmath.py, "brief
 * mills". */
#pragma once

/** As mills_f32, over u = (t - 3) / (t + 3). */
static inline float mills_for_bf16(float u)
{
    float p = 0.00467579619f;

    p = p * u - 0.0100412903f;
    p = p * u - 0.0462112492f;
    p = p * u + 0.229957391f;
    p = p * u - 0.509443754f;
    return p * u + 0.729086746f;
}
