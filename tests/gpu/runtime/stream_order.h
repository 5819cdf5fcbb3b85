/*
 * stream_order.h: the order that streams and events make, told to ThreadSanitizer, to which each
 * stream is a thread: an operation comes after the call that gave it to the stream, after what was
 * in the stream before, and after the events that the stream waited for; the host comes after what
 * it waits for. Anything else that two streams, or a stream and the host, do to the same memory is
 * a race. Without ThreadSanitizer an operation is called and nothing more.
 */
#pragma once

#include "stand_in.h"

namespace stand_in
{

/** The calling thread gives an operation to a stream. */
void order_give(operation &work);
/** Run it as the stream. */
void order_run(CUstream_st *stream, operation &work);
/** What the stream has read, the host may not free. */
extern const bool order_keeps_operations;
/** The host has waited for all of a stream / for a version of an event. */
void order_after_stream(CUstream_st *stream);
void order_after_event(CUevent_st *event, uint64_t version);

} // namespace stand_in
