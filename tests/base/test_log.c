/* test_log.c: levels by topic, and what the plan cache says at debug level. */
#include <check.h>
#include <string.h>

#include <weft/weft.h>

#include "base/log.h"
#include "support/mpi_check.h"
#include "support/stderr_text.h"

static int wanted(const char *topic)
{
    int level = -1;

    while (level < WF_LOG_DEBUG && wf_log_is_enabled((enum wf_log_level)(level + 1), topic))
        level++;
    return level;
}

WT_UNIT(log__levels_are_by_topic)
{
    static const struct {
        const char *text;
        int threshold, common, dtensor;
    } cases[] = {
        {NULL, 1, 1, 1},         {"", 1, 1, 1},           {"3", 3, 3, 3},
        {"0", 0, 0, 0},          {"+dtensor", 3, 1, 3},   {"dtensor", 2, 1, 2},
        {"-dtensor", 1, 1, 1},   {"3,-dtensor", 3, 3, 1}, {"0,+dtensor", 3, 0, 3},
        {"+dtensor,0", 3, 0, 3}, {"+other", 3, 1, 1},     {"+dtensor,dtensor", 3, 1, 2},
        {"2,,+other,", 3, 2, 2},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(wf_log_configure(cases[i].text), cases[i].common);
        ck_assert_int_eq(wf_log_threshold, cases[i].threshold);
        ck_assert_int_eq(wanted("comm"), cases[i].common);
        ck_assert_int_eq(wanted("dtensor"), cases[i].dtensor);
    }
    wf_log_configure(NULL);
}

static const char *malformed;

static void configure(void) { wf_log_configure(malformed); }

WT_UNIT(log__what_cannot_be_read_is_reported)
{
    static const char *const texts[] = {"17", "+", "dtensor=3", "a b"};

    malformed = "3,+dtensor";
    ck_assert_str_eq(wt_stderr_of(configure), "");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        malformed = texts[i];
        ck_assert_ptr_nonnull(strstr(wt_stderr_of(configure), texts[i]));
        ck_assert_int_eq(wf_log_threshold, 1);
    }
}

static void compute(void)
{
    weft_scope *scope = weft_scope_open();
    weft_tensor *t = weft_full(WEFT_F32, (int64_t[]){3, 5}, 2, 1);

    weft_relu(t);
    weft_relu(t);
    weft_scope_close(scope);
}

static int occurrences(const char *text, const char *part)
{
    int count = 0;

    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part)) count++;
    return count;
}

WT_UNIT(log__cache_tells_hits_and_misses_with_their_schema)
{
    const char *said;

    ck_assert_str_eq(wt_stderr_of(compute), "");
    wf_log_configure("+dtensor");
    said = wt_stderr_of(compute);
    ck_assert_int_eq(occurrences(said, "dtensor: cache hit: relu(f32[3,5]) -> f32[3,5]\n"), 2);
    weft_plan_cache_clear();
    said = wt_stderr_of(compute);
    ck_assert_int_eq(occurrences(said, "dtensor: cache miss: relu(f32[3,5]) -> f32[3,5]\n"), 1);
    ck_assert_int_eq(occurrences(said, "dtensor: cache hit: relu(f32[3,5]) -> f32[3,5]\n"), 1);
    wf_log_configure("3,-dtensor");
    ck_assert_str_eq(wt_stderr_of(compute), "");
    wf_log_configure(NULL);
}

WT_UNIT(cache__counts_and_forgets)
{
    weft_plan_cache_stats before, after;

    weft_plan_cache_clear();
    before = weft_plan_cache_statistics();
    ck_assert_int_eq(before.plan_entries, 0);
    ck_assert_int_eq(before.plan_hits, 0);
    ck_assert_int_eq(before.plan_misses, 0);
    for (int i = 0; i < 4; i++) compute();
    after = weft_plan_cache_statistics();
    ck_assert_int_eq(after.plan_misses, 1);
    ck_assert_int_eq(after.plan_hits, 7);
    ck_assert_int_eq(after.plan_entries, 1);
}

int main(void) { return wt_unit_main("log"); }
