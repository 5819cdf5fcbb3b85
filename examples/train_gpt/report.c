/* report.c: a line per step for people, one for programs, and the sums at the end. */
#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

static bool speaks(void) { return weft_world_rank() == 0; }

bool report_open(struct report *report, const struct options *o, char *problem, int room)
{
    *report = (struct report){0};
    if (!speaks() || !o->jsonl) return true;
    report->jsonl = fopen(o->jsonl, o->resume ? "a" : "w");
    if (!report->jsonl)
        snprintf(problem, (size_t)room, "cannot write %s: %s", o->jsonl, strerror(errno));
    return report->jsonl != NULL;
}

void report_close(struct report *report)
{
    if (report->jsonl) fclose(report->jsonl);
    report->jsonl = NULL;
}

void report_model(weft_module *model, weft_mesh *mesh, int64_t steps_done)
{
    char text[128];

    if (!speaks()) return;
    weft_mesh_format(mesh, text, sizeof text);
    printf("%s with %" PRId64 " parameters on %s\n", weft_module_type(model),
           weft_module_numel(model), text);
    if (steps_done) printf("resumed after %" PRId64 " steps\n", steps_done);
    printf("\n%6s %10s %9s %9s %10s %6s\n", "step", "loss", "norm", "lr", "tokens/s", "comm");
    fflush(stdout);
}

void report_step(struct report *report, const struct step_result *r)
{
    double rate = r->tokens / r->seconds, share = r->comm / r->seconds;

    if (!speaks()) return;
    if (report->steps++ > 0) {
        report->seconds += r->seconds;
        report->tokens += r->tokens;
    }
    printf("%6d %10.6f %9.4f %9.2e %10.0f %5.1f%%\n", r->step, r->loss, r->norm, r->lr, rate,
           100 * share);
    fflush(stdout);
    if (!report->jsonl) return;
    fprintf(report->jsonl,
            "{\"step\":%d,\"loss\":%.9g,\"norm\":%.9g,\"lr\":%.9g,\"tokens_per_s\":%.6g,\"comm_"
            "share\":%.4f}\n",
            r->step, r->loss, r->norm, r->lr, rate, share);
    fflush(report->jsonl);
}

void report_costs(struct report *report, const weft_ledger *step)
{
    double rate = report->seconds > 0 ? report->tokens / report->seconds : 0;

    if (!speaks()) return;
    printf("\n%.0f tokens/s after the first step\n\ncollectives of the last step, rank 0\n", rate);
    weft_ledger_print(step, stdout);
    printf("\nmemory, rank 0\n");
    weft_print_memory(stdout);
    fflush(stdout);
    if (report->jsonl) fprintf(report->jsonl, "{\"mean_tokens_per_s\":%.6g}\n", rate);
}

void report_validation(struct report *report, double loss)
{
    if (!speaks() || isnan(loss)) return;
    printf("\nloss on unseen text %.4f\n", loss);
    if (report->jsonl) fprintf(report->jsonl, "{\"validation_loss\":%.9g}\n", loss);
}
