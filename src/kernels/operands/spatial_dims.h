/* spatial_dims.h: how many dims a window may move over; operands with fewer have others of size 1.
 */
#pragma once

enum { WF_SPATIAL = 3 };
