/* operation.h: what streams and graphs consist of. */
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <stdint.h>
#include <utility>
#include <vector>

#include "stream_part.h"

struct CUevent_st;
struct CUstream_st;

namespace stand_in
{

struct operation {
    const char *name;
    std::function<void()> run; /* may be empty; without the lock */
    CUevent_st *waits, *records;
    uint64_t version;      /* of the event */
    char *given = nullptr; /* stream_order.h */
    std::shared_ptr<stream_part> with;
    bool is_kernel = false;
    /* In a graph: gives a stream its part, in each launch anew. */
    std::function<void(CUstream_st *, std::unique_lock<std::mutex> &)> give;

    operation(const char *of, std::function<void()> what, CUevent_st *after = nullptr,
              CUevent_st *event = nullptr, uint64_t which = 0)
        : name(of), run(std::move(what)), waits(after), records(event), version(which)
    {
    }
    explicit operation(std::shared_ptr<stream_part> part)
        : name("a part"), waits(nullptr), records(nullptr), version(0), with(std::move(part))
    {
    }
};

struct graph_node {
    operation work;
    std::vector<graph_node *> after;

    explicit graph_node(operation w) : work(std::move(w)) {}
};

} // namespace stand_in
