/*
 * give.cc: from what a rank asks for to a part of its stream, with those of its peers as partners:
 * the n-th collective of a communicator is the n-th of every rank, and the n-th send from one rank
 * to another belongs to the n-th recv there. All sends and recvs of a group are one part.
 */
#include "nccl_stand_in.h"

namespace nccl_stand_in
{

static size_t number_of(int rank) { return static_cast<size_t>(rank); }

/* Mixed, what happens is undefined. */
static void check_registered(const request &a, const request &b)
{
    if (a.count && a.registered != b.registered)
        refuse("%s: rank %d passes registered memory, rank %d other", describe(a).c_str(),
               a.registered ? a.comm->rank : b.comm->rank,
               a.registered ? b.comm->rank : a.comm->rank);
}

/* A collective that one rank has in a graph all ranks have. */
static void check_captured(const request &a, const request &b)
{
    if (a.captured != b.captured)
        refuse("%s: rank %d launches it in a graph, rank %d does not", describe(a).c_str(),
               a.captured ? a.comm->rank : b.comm->rank, a.captured ? b.comm->rank : a.comm->rank);
}

/* What all ranks have to say alike. */
static void check_alike(const request &a, const request &b)
{
    bool reduces = a.kind == all_reduce || a.kind == reduce_scatter || a.kind == reduce;

    if (a.kind == b.kind && a.count == b.count && a.type == b.type && a.peer == b.peer &&
        (!reduces || a.op == b.op)) {
        check_registered(a, b);
        check_captured(a, b);
        return;
    }
    refuse("rank %d asks for %s, rank %d for %s", a.comm->rank, describe(a).c_str(), b.comm->rank,
           describe(b).c_str());
}

static void give_part(ncclComm_t comm, const std::shared_ptr<stream_part> &part,
                      cudaStream_t stream, locked &lock)
{
    part->stream = stream;
    comm->parts.push_back(part);
    (void)stand_in::enqueue(stream, stand_in::operation(part), lock);
}

static void give_collective(const request &r, locked &lock)
{
    clique &c = *r.comm->clique;
    size_t me = number_of(r.comm->rank), number = c.given[me]++;
    auto part = std::make_shared<collective_part>(r);

    if (c.collectives.size() == number) c.collectives.emplace_back(c.ranks.size());
    auto &ranks = c.collectives[number];

    part->partners.resize(c.ranks.size());
    part->partners[me] = part.get();
    ranks[me] = part;
    for (size_t other = 0; other < ranks.size(); other++) {
        if (other == me || !ranks[other]) continue;
        check_alike(ranks[other]->asked, r);
        part->partners[other] = ranks[other].get();
        ranks[other]->partners[me] = part.get();
    }
    give_part(r.comm, part, r.stream, lock);
}

/* Of two halves of one message. */
static void match(exchange_part *a, size_t i, exchange_part *b, size_t j)
{
    const request &x = a->transfers[i].asked, &y = b->transfers[j].asked;

    if (x.count != y.count || x.type != y.type)
        refuse("rank %d asks for %s, rank %d for %s", x.comm->rank, describe(x).c_str(),
               y.comm->rank, describe(y).c_str());
    check_registered(x, y);
    check_captured(x, y);
    a->transfers[i].other = b;
    a->transfers[i].number = j;
    b->transfers[j].other = a;
    b->transfers[j].number = i;
    a->partners[i] = b;
    b->partners[j] = a;
}

static void find_other_half(exchange_part *part, size_t i)
{
    const request &r = part->transfers[i].asked;
    clique &c = *r.comm->clique;
    int sender = r.kind == send ? r.comm->rank : r.peer;
    int receiver = r.kind == send ? r.peer : r.comm->rank;
    auto &wanted = c.halves[{r.kind == send ? recv : send, sender, receiver}];

    if (wanted.empty()) {
        c.halves[{r.kind, sender, receiver}].push_back({part, i});
        return;
    }
    match(part, i, wanted.front().first, wanted.front().second);
    wanted.pop_front();
}

static void give_exchange(ncclComm_t comm, const std::vector<request> &requests, locked &lock)
{
    auto part = std::make_shared<exchange_part>();

    for (auto &r : requests) {
        if (r.stream != requests[0].stream)
            refuse("%s: the stand-in knows one stream per group", describe(r).c_str());
        part->transfers.push_back({r, nullptr, 0});
    }
    part->partners.resize(requests.size());
    comm->clique->exchanges.push_back(part);
    for (size_t i = 0; i < requests.size(); i++) find_other_half(part.get(), i);
    for (auto &t : part->transfers)
        if (!t.other && t.asked.peer == comm->rank)
            refuse("%s: from and to rank %d itself, without the other half in the group",
                   describe(t.asked).c_str(), comm->rank);
    give_part(comm, part, requests[0].stream, lock);
}

/* Into a graph: it is given anew in each launch. */
static void capture(ncclComm_t comm, const std::vector<request> &requests)
{
    stand_in::operation node("NCCL", nullptr);

    node.give = [=, held = comm->held_by_graphs](CUstream_st *stream, locked &lock) {
        std::vector<request> now = requests;

        check_usable(comm, "a launch of a graph");
        for (auto &r : now) {
            r.stream = stream;
            r.captured = true;
        }
        give(comm, now, lock);
    };
    (void)stand_in::capture_operation(requests[0].stream, std::move(node));
}

void give(ncclComm_t comm, const std::vector<request> &requests, locked &lock)
{
    std::vector<request> exchange;

    if (requests[0].stream->capture) {
        capture(comm, requests);
        return;
    }
    for (auto &r : requests) {
        if (r.kind == send || r.kind == recv)
            exchange.push_back(r);
        else
            give_collective(r, lock);
    }
    if (!exchange.empty()) give_exchange(comm, exchange, lock);
}

} // namespace nccl_stand_in
