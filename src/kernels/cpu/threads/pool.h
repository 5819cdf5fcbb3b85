/*
 * pool.h: threads of this process beside the one that calls, which sleep until there is work.
 */
#pragma once

#include <stdbool.h>

typedef void wf_pool_part(const void *work, int part);

/**
 * part(work, 0 .. n - 1), each once, on n threads of which the caller is one. They are started when
 * first needed. false, and nothing is done: they are busy with another rank's work, or the system
 * gave none.
 */
bool wf_pool_run(int n, wf_pool_part *part, const void *work);
