/* loss.c: losses that are formulas of other ops. Cross-entropy has a file of its own. */
#include <weft/ops.h>

weft_tensor *weft_mse(weft_tensor *a, weft_tensor *b)
{
    return weft_mean_all(weft_square(weft_sub(a, b)));
}
