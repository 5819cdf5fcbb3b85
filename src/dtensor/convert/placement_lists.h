/* placement_lists.h: the lists that weft_placements gave. */
#pragma once

/** Free those of this thread. */
void wf_placement_lists_finalize(void);
