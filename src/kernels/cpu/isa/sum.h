/*
 * sum.h: sums along a row, in several partial sums so that additions need not wait for each other.
 * `term` is an expression of the index j and may have effects on element j of other arrays.
 */
#pragma once

#include <stdint.h>

enum { WF_LANES = 32 };

#define WF_ADD_UP(T, total, n, term)                                                               \
    do {                                                                                           \
        T lane_[WF_LANES] = {0}, rest_ = 0;                                                        \
        int64_t i_ = 0;                                                                            \
                                                                                                   \
        for (; i_ + WF_LANES <= (n); i_ += WF_LANES) {                                             \
            _Pragma("omp simd") for (int l_ = 0; l_ < WF_LANES; l_++)                              \
            {                                                                                      \
                const int64_t j = i_ + l_;                                                         \
                lane_[l_] += (term);                                                               \
            }                                                                                      \
        }                                                                                          \
        for (int64_t j = i_; j < (n); j++)                                                         \
            rest_ += (term);                                                                       \
        for (int half_ = WF_LANES / 2; half_ > 0; half_ /= 2)                                      \
            for (int l_ = 0; l_ < half_; l_++)                                                     \
                lane_[l_] += lane_[l_ + half_];                                                    \
        (total) = rest_ + lane_[0];                                                                \
    } while (0)
