/*
 * streams.cc: streams, events, and when operations run. WT_CUDA_STREAMS says: lazy (unless told),
 * an operation runs only when somebody waits for it, and of other streams only what an event
 * demands; eager, at once; random or random:SEED, in any order that streams and events allow.
 *
 * An operation runs in the OS thread that waits for it, without the lock, so that other threads go
 * on meanwhile; one stream runs one operation at a time.
 */
#include "stand_in.h"
#include "stream_order.h"

#include <algorithm>
#include <random>
#include <stdlib.h>
#include <string.h>

namespace stand_in
{

static std::vector<CUstream_st *> streams;
static std::condition_variable changed;
static uint64_t operations_run;
static long fail_at = -1; /* the operation that WT_CUDA_FAIL_RUN asks for */

policy stream_policy()
{
    static const char *text = getenv("WT_CUDA_STREAMS");

    if (!text || strcmp(text, "lazy") == 0) return lazy;
    if (strcmp(text, "eager") == 0) return eager;
    if (strncmp(text, "random", 6) == 0) return random_steps;
    refuse("WT_CUDA_STREAMS is lazy, eager, random or random:SEED, not %s", text);
}

unsigned chance(unsigned n)
{
    static std::mt19937 engine(static_cast<unsigned>([] {
        const char *text = getenv("WT_CUDA_STREAMS"), *colon = text ? strchr(text, ':') : nullptr;

        return colon ? atol(colon + 1) : 1;
    }()));

    return static_cast<unsigned>(engine() % n);
}

static bool known(CUstream_st *stream)
{
    return std::find(streams.begin(), streams.end(), stream) != streams.end();
}

/* Some stream's part whose turn has not come, or nullptr and `all` that do it together. `missing`:
 * a part that no stream has been given. */
static stream_part *find_late(stream_part *first, std::vector<stream_part *> &all, bool &missing)
{
    all = {first};
    missing = false;
    for (size_t i = 0; i < all.size(); i++) {
        CUstream_st *s = all[i]->stream;

        if (all[i]->done) { /* cancelled */
            missing = true;
            continue;
        }
        if (s->running || s->queue.front().with.get() != all[i]) return all[i];
        for (stream_part *p : all[i]->partners) {
            if (!p)
                missing = true;
            else if (std::find(all.begin(), all.end(), p) == all.end())
                all.push_back(p);
        }
    }
    return nullptr;
}

static bool can_run_together(stream_part *p)
{
    std::vector<stream_part *> all;
    bool missing;

    return p->done || (!find_late(p, all, missing) && !missing);
}

static bool event_has_come(const operation &work)
{
    return !work.waits || work.waits->done >= work.version;
}

static bool can_run(const CUstream_st *s)
{
    if (s->running || s->queue.empty()) return false;
    return event_has_come(s->queue.front()) &&
           (!s->queue.front().with || can_run_together(s->queue.front().with.get()));
}

static void run_together(stream_part *p)
{
    std::vector<stream_part *> all;
    bool missing;

    if (p->done) return;
    find_late(p, all, missing);
    p->run(all);
    for (stream_part *each : all) each->done = true;
}

static bool idle(const CUstream_st *s) { return s->queue.empty() && !s->running; }

static void run_front(CUstream_st *s, locked &lock)
{
    if (s->queue.front().with) run_together(s->queue.front().with.get());
    auto work = std::make_unique<operation>(std::move(s->queue.front()));

    s->queue.pop_front();
    if (fail_at < 0) fail_at = setting("WT_CUDA_FAIL_RUN", 0);
    if (work->run && static_cast<long>(++operations_run) == fail_at) {
        set_sticky_error(cudaErrorIllegalAddress);
        work->run = nullptr;
    }
    s->running = true;
    running_device = s->device;
    if (work->run) lock.unlock();
    order_run(s, *work);
    if (!lock.owns_lock()) lock.lock();
    s->running = false;
    if (work->records) {
        work->records->done = std::max(work->records->done, work->version);
        work->records->time = operations_run;
    }
    if (order_keeps_operations) work.release();
    changed.notify_all();
}

/* The stream that will record this version of an event. */
static CUstream_st *recorder(const CUevent_st *event, uint64_t version)
{
    for (auto s : streams)
        for (auto &work : s->queue)
            if (work.records == event && work.version == version) return s;
    refuse("an event is waited for that no stream will record");
}

/* The stream that holds this one up; nullptr: a part that is still to be given to a stream does. */
static CUstream_st *held_up_by(const CUstream_st *s)
{
    const operation &front = s->queue.front();
    std::vector<stream_part *> all;
    bool missing;
    stream_part *late;

    if (!event_has_come(front)) return recorder(front.waits, front.version);
    late = find_late(front.with.get(), all, missing);
    return late ? late->stream : nullptr;
}

/* One step towards the end of the stream's queue. false: there is none before another thread gives
 * a stream its part. */
static bool step(CUstream_st *s, locked &lock)
{
    for (size_t hops = 0; !s->running && !can_run(s); hops++) {
        if (hops > streams.size())
            refuse("streams wait for each other: they were given collectives in different orders");
        s = held_up_by(s);
        if (!s) return false;
    }
    if (s->running)
        changed.wait(lock);
    else
        run_front(s, lock);
    return true;
}

void run_until_empty(CUstream_st *stream, locked &lock)
{
    while (!idle(stream))
        if (!step(stream, lock)) changed.wait(lock);
    order_after_stream(stream);
}

/* In an order of chance, when that is asked for. */
static void run_some(unsigned count, locked &lock)
{
    std::vector<CUstream_st *> ready;

    while (count--) {
        ready.clear();
        for (auto s : streams)
            if (can_run(s)) ready.push_back(s);
        if (ready.empty()) return;
        run_front(ready[chance(static_cast<unsigned>(ready.size()))], lock);
    }
}

void run_until_empty(int device, locked &lock)
{
    if (stream_policy() == random_steps) run_some(~0u, lock);
    for (size_t i = 0; i < streams.size(); i++)
        if (streams[i]->device == device) run_until_empty(streams[i], lock);
}

void run_until_event(CUevent_st *event, uint64_t version, locked &lock)
{
    while (event->done < version)
        if (!step(recorder(event, version), lock)) changed.wait(lock);
    order_after_event(event, version);
}

bool step_stream(CUstream_st *stream, locked &lock)
{
    if (!idle(stream)) step(stream, lock);
    if (idle(stream)) order_after_stream(stream);
    return idle(stream);
}

bool step_event(CUevent_st *event, locked &lock)
{
    if (event->done < event->recorded) step(recorder(event, event->recorded), lock);
    if (event->done < event->recorded) return false;
    order_after_event(event, event->recorded);
    return true;
}

/* Nobody has waited; and what it held up in other streams runs too. */
static void run_at_once(CUstream_st *stream, locked &lock)
{
    while (!idle(stream) && step(stream, lock)) continue;
    run_some(~0u, lock);
}

cudaError_t enqueue(CUstream_st *stream, operation work, locked &lock)
{
    if (stream->capture) return capture_operation(stream, std::move(work));
    order_give(work);
    stream->queue.push_back(std::move(work));
    changed.notify_all();
    if (stream_policy() == eager) run_at_once(stream, lock);
    if (stream_policy() == random_steps) run_some(chance(4), lock);
    return cudaSuccess;
}

void cancel(stream_part *p)
{
    p->done = true;
    changed.notify_all();
}

cudaError_t check_stream(CUstream_st *stream, const char *what)
{
    if (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread)
        refuse("%s uses a default stream", what);
    if (!known(stream) || stream->destroyed) return cudaErrorInvalidResourceHandle;
    return cudaSuccess;
}

static std::vector<CUevent_st *> events;

cudaError_t check_event(CUevent_st *event)
{
    bool there = std::find(events.begin(), events.end(), event) != events.end();

    return there && !event->destroyed ? cudaSuccess : cudaErrorInvalidResourceHandle;
}

} // namespace stand_in

using namespace stand_in;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority)
{
    return api_call(__func__, [&](locked &) {
        if (!stream || (flags & ~static_cast<unsigned>(cudaStreamNonBlocking)))
            return cudaErrorInvalidValue;
        *stream = new CUstream_st{current_device, priority, {}, false, false, nullptr, {}, nullptr};
        streams.push_back(*stream);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags)
{
    return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithFlags(stream, 0); }

/* What is in the stream still runs, when somebody waits for it. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_stream(stream, "cudaStreamDestroy");

        if (error == cudaSuccess) stream->destroyed = true;
        return error;
    });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    return api_call("cudaStreamSynchronize", [&](locked &lock) {
        cudaError_t error = check_stream(stream, "cudaStreamSynchronize");

        if (error == cudaSuccess) error = check_not_captured(stream);
        if (error != cudaSuccess) return error;
        if (stream_policy() == random_steps) run_some(chance(8), lock);
        run_until_empty(stream, lock);
        return cudaSuccess;
    });
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    return api_call("cudaStreamQuery", [&](locked &lock) {
        cudaError_t error = check_stream(stream, "cudaStreamQuery");

        if (error == cudaSuccess) error = check_not_captured(stream);
        if (error != cudaSuccess) return error;
        return step_stream(stream, lock) ? cudaSuccess : cudaErrorNotReady;
    });
}

cudaError_t cudaDeviceSynchronize(void)
{
    return api_call(__func__, [&](locked &lock) {
        cudaError_t error = check_no_capture();

        if (error == cudaSuccess) run_until_empty(current_device, lock);
        return error;
    });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags)
{
    const unsigned allowed = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

    return api_call(__func__, [&](locked &) {
        if (!event || (flags & ~allowed)) return cudaErrorInvalidValue;
        *event = new CUevent_st{current_device, flags, 0, 0, 0, false, nullptr, {}, {}};
        events.push_back(*event);
        return cudaSuccess;
    });
}

cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_event(event);

        if (error == cudaSuccess) event->destroyed = true;
        return error;
    });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    return api_call("cudaEventRecord", [&](locked &lock) {
        cudaError_t error = check_stream(stream, "cudaEventRecord");

        if (error == cudaSuccess) error = check_event(event);
        if (error != cudaSuccess) return error;
        if (event->device != stream->device) return cudaErrorInvalidResourceHandle;
        if (stream->capture) return capture_record(stream, event);
        event->capture = nullptr;
        event->recorded++;
        return enqueue(stream, {"cudaEventRecord", nullptr, nullptr, event, event->recorded}, lock);
    });
}

/* An event that was never recorded is waited for by nobody. */
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    return api_call("cudaStreamWaitEvent", [&](locked &lock) {
        cudaError_t error = check_stream(stream, "cudaStreamWaitEvent");

        if (error == cudaSuccess) error = check_event(event);
        if (error == cudaSuccess && flags) error = cudaErrorInvalidValue;
        if (error != cudaSuccess) return error;
        if (stream->capture || event->capture) return capture_wait(stream, event);
        if (!event->recorded) return cudaSuccess;
        return enqueue(stream, {"cudaStreamWaitEvent", nullptr, event, nullptr, event->recorded},
                       lock);
    });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    return api_call(__func__, [&](locked &lock) {
        cudaError_t error = check_event(event);

        if (error == cudaSuccess) error = check_not_captured(event);
        if (error == cudaSuccess) run_until_event(event, event->recorded, lock);
        return error;
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    return api_call(__func__, [&](locked &lock) {
        cudaError_t error = check_event(event);

        if (error == cudaSuccess) error = check_not_captured(event);
        if (error != cudaSuccess) return error;
        return step_event(event, lock) ? cudaSuccess : cudaErrorNotReady;
    });
}

/* Milliseconds are thousands of operations. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    return api_call(__func__, [&](locked &) {
        cudaError_t error = check_event(start);

        if (error == cudaSuccess) error = check_event(end);
        if (error != cudaSuccess) return error;
        if ((start->flags | end->flags) & cudaEventDisableTiming || !start->recorded ||
            !end->recorded)
            return cudaErrorInvalidResourceHandle;
        if (start->done < start->recorded || end->done < end->recorded) return cudaErrorNotReady;
        *ms = static_cast<float>(end->time - start->time) * 1e-3f;
        return cudaSuccess;
    });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *payload)
{
    return api_call("cudaLaunchHostFunc", [&](locked &lock) {
        cudaError_t error = check_stream(stream, "cudaLaunchHostFunc");
        auto run = [=] {
            in_host_function = true;
            function(payload);
            in_host_function = false;
        };

        if (error == cudaSuccess && !function) error = cudaErrorInvalidValue;
        if (error != cudaSuccess) return error;
        return enqueue(stream, {"a host function", run}, lock);
    });
}
}
