/* index_map.cu: how much a launch may have. */
#include "kernels/cuda/index_map.h"

int64_t wf_cuda_index_limit = (int64_t)1 << 30;
