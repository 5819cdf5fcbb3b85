/*
 * row_sum.h: sums along a row, in several partial sums so that additions need not wait for each
 * other. `term` is an expression of the index j. Short rows are not worth the partial sums.
 */
#pragma once

#include <stdint.h>

enum { WF_LANES = 32, WF_SHORT_ROW = 4 * WF_LANES };

#define WF_ADD_UP(T, total, n, term)                                                               \
    do {                                                                                           \
        T sum_ = 0;                                                                                \
        int64_t i_ = 0;                                                                            \
                                                                                                   \
        if ((n) >= WF_SHORT_ROW) {                                                                 \
            T lane_[WF_LANES] = {0};                                                               \
                                                                                                   \
            for (; i_ + WF_LANES <= (n); i_ += WF_LANES) {                                         \
                _Pragma("omp simd") for (int l_ = 0; l_ < WF_LANES; l_++)                          \
                {                                                                                  \
                    const int64_t j = i_ + l_;                                                     \
                    lane_[l_] += (term);                                                           \
                }                                                                                  \
            }                                                                                      \
            _Pragma("omp simd reduction(+ : sum_)") for (int l_ = 0; l_ < WF_LANES; l_++) sum_ +=  \
                lane_[l_];                                                                         \
        }                                                                                          \
        _Pragma("omp simd reduction(+ : sum_)") for (int64_t j = i_; j < (n); j++) sum_ += (term); \
        (total) = sum_;                                                                            \
    } while (0)
