/* before_init.c: what a program may ask of devices before weft_init, and what it may not. */
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

/* weft_device_count reads where the library is. A rank's own GPU is known from weft_init on. */
int main(int argc, char **argv)
{
    int64_t unused, total;
    bool counted = weft_device_count(WEFT_CUDA) == 8;
    bool refused = weft_device_memory(WEFT_CUDA, &unused, &total) == WEFT_ERR_STATE &&
                   strstr(weft_error_message(), "weft_init comes first");

    weft_error_clear();
    WEFT_CHECK(weft_init(&argc, &argv));
    WEFT_CHECK(weft_device_memory(WEFT_CUDA, &unused, &total));
    printf("counted: %d, refused: %d\n", counted, refused);
    return weft_finalize() || !counted || !refused;
}
