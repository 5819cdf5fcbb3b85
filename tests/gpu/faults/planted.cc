/* planted.cc: which fault is awake, and, in the file that WT_GPU_REACHED names, which were reached.
 */
#include "planted.h"

#include <stdio.h>
#include <stdlib.h>

int gpu_fault_awake;
unsigned char gpu_fault_reached[most_gpu_faults];

namespace
{

struct at_start_and_end {
    at_start_and_end()
    {
        const char *number = getenv("WT_GPU_FAULT");

        if (number) gpu_fault_awake = atoi(number);
    }
    ~at_start_and_end()
    {
        const char *name = getenv("WT_GPU_REACHED");
        FILE *out = name ? fopen(name, "w") : nullptr;

        if (!out) return;
        for (int i = 0; i < most_gpu_faults; i++)
            if (gpu_fault_reached[i]) fprintf(out, "%d\n", i);
        fclose(out);
    }
};
at_start_and_end here;

} // namespace
