/*
 * move.cc: the bytes of collectives and messages. Reductions add as a ring does: each part of the
 * result begins at another rank, and every sum is rounded to its type. So all ranks have the same
 * bits, and not those of another order.
 */
#include "nccl_stand_in.h"

#include <algorithm>
#include <cuda_fp16.h>
#include <string.h>

namespace nccl_stand_in
{

/* ---- elements ---- */

struct bf16 {
    uint16_t bits;
};

static float to_number(bf16 x)
{
    uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static float to_number(__half x) { return __half2float(x); }

template <class T> static T to_number(T x) { return x; }

static void set(bf16 &to, float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000)
        bits |= 0x400000; /* NaN */
    else
        bits += 0x7fff + (bits >> 16 & 1);
    to.bits = static_cast<uint16_t>(bits >> 16);
}

static void set(__half &to, float value) { to = __float2half(value); }

template <class T, class V> static void set(T &to, V value) { to = static_cast<T>(value); }

/* Of two numbers that are not both NaN, NaN is the one that goes: fmax and fmin. */
template <class V> static V extreme(V a, V b, bool larger)
{
    if (a != a || b != b) return a != a ? b : a;
    return (a > b) == larger ? a : b;
}

template <class V> static V combine(ncclRedOp_t op, V a, V b)
{
    switch (op) {
    case ncclSum:
        return static_cast<V>(a + b);
    case ncclProd:
        return static_cast<V>(a * b);
    case ncclMax:
        return extreme(a, b, true);
    case ncclMin:
        return extreme(a, b, false);
    default:
        refuse("reduction %d is one that the stand-in does not know", op);
    }
}

/* ---- collectives ---- */

/* One rank's request, and where its bytes are. */
struct side {
    const request *asked;
    const char *from;
    char *to;
};

static const char *read_at(const request &r, size_t bytes)
{
    return bytes ? stand_in::device_bytes(r.from, bytes, describe(r).c_str()) : nullptr;
}

static char *write_at(const request &r, size_t bytes)
{
    return bytes ? stand_in::device_bytes(r.to, bytes, describe(r).c_str()) : nullptr;
}

/* Of n elements of all ranks from `first` on, the ring's order that begins at rank `start`. */
template <class T>
static void reduce_ring(const std::vector<side> &sides, size_t first, size_t n, size_t start, T *to)
{
    for (size_t i = 0; i < n; i++) {
        T sum = reinterpret_cast<const T *>(sides[start].from)[first + i];

        for (size_t k = 1; k < sides.size(); k++) {
            auto from = reinterpret_cast<const T *>(sides[(start + k) % sides.size()].from);

            set(sum, combine(sides[0].asked->op, to_number(sum), to_number(from[first + i])));
        }
        to[i] = sum;
    }
}

/* The whole, or for a reduce-scatter all ranks' parts one after another. */
template <class T> static std::vector<char> reduce_all(const std::vector<side> &sides, size_t n)
{
    std::vector<char> result(n * sizeof(T));
    size_t ranks = sides.size(), part = (n + ranks - 1) / ranks;

    for (size_t start = 0; start < ranks && start * part < n; start++) {
        size_t first = start * part;

        reduce_ring(sides, first, std::min(part, n - first), start,
                    reinterpret_cast<T *>(result.data()) + first);
    }
    return result;
}

static std::vector<char> reduce_all(const std::vector<side> &sides, size_t n)
{
    switch (sides[0].asked->type) {
    case ncclFloat32:
        return reduce_all<float>(sides, n);
    case ncclFloat64:
        return reduce_all<double>(sides, n);
    case ncclBfloat16:
        return reduce_all<bf16>(sides, n);
    case ncclFloat16:
        return reduce_all<__half>(sides, n);
    case ncclInt32:
        return reduce_all<int32_t>(sides, n);
    case ncclInt64:
        return reduce_all<int64_t>(sides, n);
    case ncclUint8:
        return reduce_all<uint8_t>(sides, n);
    default:
        refuse("a reduction of type %d is one that the stand-in does not know",
               sides[0].asked->type);
    }
}

static void check_overlap(const side &s, size_t from_bytes, size_t to_bytes, size_t own)
{
    bool overlaps = s.from < s.to + to_bytes && s.to < s.from + from_bytes;
    bool in_place = from_bytes <= to_bytes ? s.from == s.to + own : s.to == s.from + own;

    if (s.from && s.to && overlaps && !in_place)
        refuse("%s: the memory that is read overlaps what is written", describe(*s.asked).c_str());
}

/* All that is read is read before anything is written. */
static void run_collective(std::vector<side> &sides)
{
    const request &first = *sides[0].asked;
    size_t ranks = sides.size(), one = first.count * bytes_of(first.type);
    size_t sent = first.kind == reduce_scatter ? one * ranks : one;
    size_t got = first.kind == all_gather ? one * ranks : one;
    std::vector<char> result;

    for (size_t r = 0; r < ranks; r++) {
        const request &asked = *sides[r].asked;
        bool root = asked.peer == asked.comm->rank;

        if (first.kind != broadcast || root) sides[r].from = read_at(asked, sent);
        if (first.kind != reduce || root) sides[r].to = write_at(asked, got);
        check_overlap(sides[r], sent, got, sent == got ? 0 : r * one);
    }
    if (first.kind == all_gather)
        for (auto &s : sides) result.insert(result.end(), s.from, s.from + one);
    else if (first.kind == broadcast)
        result.assign(sides[static_cast<size_t>(first.peer)].from,
                      sides[static_cast<size_t>(first.peer)].from + one);
    else
        result = reduce_all(sides, sent / bytes_of(first.type));
    for (size_t r = 0; r < ranks; r++)
        if (sides[r].to)
            memcpy(sides[r].to, result.data() + (first.kind == reduce_scatter ? r * one : 0), got);
}

void collective_part::run(const std::vector<stream_part *> &)
{
    std::vector<side> sides;

    if (!asked.count) return;
    for (stream_part *p : partners)
        sides.push_back({&static_cast<collective_part *>(p)->asked, nullptr, nullptr});
    run_collective(sides);
}

/* ---- messages ---- */

void exchange_part::run(const std::vector<stream_part *> &all)
{
    std::vector<std::pair<char *, std::vector<char>>> messages;

    for (stream_part *p : all)
        for (auto &t : static_cast<exchange_part *>(p)->transfers) {
            const request &to = t.other->transfers[t.number].asked;
            size_t bytes = t.asked.count * bytes_of(t.asked.type);

            if (t.asked.kind != send || !bytes) continue;
            const char *from = read_at(t.asked, bytes);

            messages.push_back({write_at(to, bytes), std::vector<char>(from, from + bytes)});
        }
    for (auto &m : messages) memcpy(m.first, m.second.data(), m.second.size());
}

} // namespace nccl_stand_in
