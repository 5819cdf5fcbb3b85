/* stream_part.h: what several streams do together, of which each has a part. */
#pragma once

#include <vector>

struct CUstream_st;

namespace stand_in
{

/** It is an operation of its stream, and runs with its partners, when each is the next in its own.
 */
struct stream_part {
    CUstream_st *stream = nullptr;
    bool done = false;
    std::vector<stream_part *> partners; /* nullptr: its stream has not been given it yet */

    /** Do the work of all that partners lead to, once; each is the next in its stream. */
    virtual void run(const std::vector<stream_part *> &all) = 0;
    virtual ~stream_part() = default;
};

} // namespace stand_in
