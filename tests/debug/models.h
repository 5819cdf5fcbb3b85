/* models.h: the small models that the cases of other libraries speak of. */
#pragma once

#include <weft/weft.h>

/** linear(10, 16), relu, linear(16, 10), named net1, relu, net2, of type "MLP". */
weft_module *wt_mlp(void);

/** An MLP spread column-wise and row-wise over the mesh. */
weft_module *wt_split_mlp(weft_mesh *mesh);

/** `n` of them, one after the other: layers.0, layers.1, ..., of type "MLPStacked". */
weft_module *wt_stack(int n);
