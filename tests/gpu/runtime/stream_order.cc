/* stream_order.cc: see stream_order.h. A stream is a fiber with a stack of its own, so that nothing
 * but what operations do is shared. */
#include "stream_order.h"

#include "fiber.h"
#include "sanitizers.h"

namespace stand_in
{

using engine::fiber;
using engine::under_tsan;

struct stream_thread {
    fiber *own, host; /* host: whoever runs an operation now */
    CUstream_st *stream;
    operation *work;
    char finished[8]; /* all that has run so far */
};

const bool order_keeps_operations = under_tsan;

static thread_local stream_thread *entered; /* when a fiber begins */

void order_give(operation &work)
{
    if (!under_tsan) return;
    work.given = new char[8]; /* kept: a new one at its address would look ordered */
    engine::tsan_release(work.given);
}

static void run_operation(stream_thread *t)
{
    operation &work = *t->work;

    engine::tsan_acquire(work.given);
    if (work.waits) engine::tsan_acquire(work.waits->order[work.version]);
    if (work.run) work.run();
    if (work.records) engine::tsan_release(work.records->order[work.version]);
    engine::tsan_release(t->finished);
}

static void run_operations()
{
    stream_thread *t = entered;

    engine::fiber_entered();
    for (;;) {
        run_operation(t);
        engine::fiber_switch(t->own, &t->host);
    }
}

void order_run(CUstream_st *stream, operation &work)
{
    if (!under_tsan) {
        if (work.run) work.run();
        return;
    }
    if (!stream->thread) {
        stream->thread = new stream_thread{engine::fiber_new(), {}, stream, nullptr, {}};
        engine::fiber_prepare(stream->thread->own, run_operations);
    }
    stream_thread *t = stream->thread;
    if (work.records) {
        work.records->order.resize(work.version + 1);
        work.records->order[work.version] = new char[8];
    }
    t->work = &work;
    t->host = {};
    engine::fiber_of_os_thread(&t->host);
    entered = t;
    engine::fiber_switch(&t->host, t->own);
}

void order_after_stream(CUstream_st *stream)
{
    if (under_tsan && stream->thread) engine::tsan_acquire(stream->thread->finished);
}

void order_after_event(CUevent_st *event, uint64_t version)
{
    if (under_tsan && version) engine::tsan_acquire(event->order[version]);
}

} // namespace stand_in
