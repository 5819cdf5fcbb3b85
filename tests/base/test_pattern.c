/* test_pattern.c: the dialect of patterns over paths. */
#include "base/text/pattern.h"
#include "support/mpi_check.h"

WT_UNIT(pattern__matches_whole_paths)
{
    static const struct {
        const char *pattern, *path;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"", "a", false},
        {"a", "a", true},
        {"a", "a.b", false},
        {"*", "a", true},
        {"*", "a.b", false},
        {"**", "a.b", true},
        {"**.bias", "bias", true},
        {"**.bias", "a.b.bias", true},
        {"a.**", "a", true},
        {"a.**", "a.b.c", true},
        {"a.**", "ab", false},
        {"**.a.**.b", "a.b", true},
        {"**.a.**.b", "x.a.y.z.b", true},
        {"**.a.**.b", "x.a.y.z.c", false},
        {"blocks.*.mlp.up", "blocks.0.mlp.up", true},
        {"blocks.*.mlp.up", "blocks.0.1.mlp.up", false},
        {"q_*", "q_weight", true},
        {"a*b*c", "axbyc", true},
        {"norm?", "norm1", true},
        {"norm?", "norm", false},
        {"a?b", "a.b", false},
        {"norm[12]", "norm2", true},
        {"norm[!12]", "norm2", false},
        {"[a-c]x", "bx", true},
        {"a[.]b", "a.b", false},
        {"[", "[", true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(wf_pattern_match(cases[i].pattern, cases[i].path, NULL) == cases[i].matches,
                      "%s of %s", cases[i].pattern, cases[i].path);
}

WT_UNIT(pattern__says_what_its_stars_stand_for)
{
    struct wf_pattern_stars stars;
    const char *path = "h.12.attn.q_weight";

    ck_assert(wf_pattern_match("h.*.attn.q_*", path, &stars));
    ck_assert_int_eq(stars.count, 2);
    ck_assert(stars.at[0] == path + 2 && stars.length[0] == 2);
    ck_assert(stars.at[1] == path + 12 && stars.length[1] == 6);
    ck_assert(wf_pattern_match("**.q_weight", path, &stars));
    ck_assert(stars.count == 1 && stars.at[0] == path && stars.length[0] == 9);
    ck_assert(wf_pattern_match("*.*.*.*.*.*.*.*.*.*", "a.b.c.d.e.f.g.h.i.j", &stars));
    ck_assert_int_eq(stars.count, WF_PATTERN_STARS);
}

int main(void) { return wt_unit_main("pattern"); }
