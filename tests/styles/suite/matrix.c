/*
 * matrix.c: results as tables: a row per subject, a column per value; then what does not exist.
 *
 * A cell is the number of cases that passed, with "!" and the number that failed where any did, and
 * "-" where there is no case.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "suite.h"

enum { SUBJECT_WIDTH = 26 };

void ws_results_add(struct ws_results *results, const struct ws_case *c, bool passed)
{
    passed ? results->passed++ : results->failed++;
    for (int i = 0; i < WS_COLUMNS; i++) results->counts[c->subject][i][c->at[i]][passed]++;
}

static void print_cell(const int64_t of[2], int width)
{
    char text[48] = "-";

    if (of[0])
        snprintf(text, sizeof text, "%" PRId64 "!%" PRId64, of[1], of[0]);
    else if (of[1])
        snprintf(text, sizeof text, "%" PRId64, of[1]);
    printf(" %*s", width, text);
}

static int width_of(enum ws_column column, int value)
{
    int width = (int)strlen(ws_value_name(column, value));

    return width > 6 ? width : 6;
}

static bool has_cases(const struct ws_results *results, int subject)
{
    for (int v = 0; v < WS_VALUES; v++) {
        const int64_t *of = results->counts[subject][WS_INPUT][v];

        if (of[0] || of[1]) return true;
    }
    return false;
}

/* One table: the columns from `first` up to `end`. */
static void print_table(const struct ws_results *results, int first, int end)
{
    printf("\n%-*s", SUBJECT_WIDTH, "");
    for (int i = first; i < end; i++)
        for (int v = 0; v < ws_column_values((enum ws_column)i); v++)
            printf(" %*s", width_of((enum ws_column)i, v), ws_value_name((enum ws_column)i, v));
    printf("\n");
    for (int s = 0; s < ws_n_subjects; s++) {
        if (!has_cases(results, s)) continue;
        printf("%-*s", SUBJECT_WIDTH, ws_subjects[s].name);
        for (int i = first; i < end; i++)
            for (int v = 0; v < ws_column_values((enum ws_column)i); v++)
                print_cell(results->counts[s][i][v], width_of((enum ws_column)i, v));
        printf("\n");
    }
}

static void print_absent(const struct ws_results *results)
{
    printf("\nNot there:\n");
    for (int r = 0; r < WS_REASONS; r++) {
        int64_t count = 0;
        int subjects = 0;

        for (int s = 0; s < ws_n_subjects; s++) {
            count += results->absent[r][s];
            subjects += results->absent[r][s] > 0;
        }
        if (count)
            printf("%8" PRId64 "  %s (%d of %d rows)\n", count, ws_reasons[r], subjects,
                   ws_n_subjects);
    }
}

void ws_matrix_print(const struct ws_results *results)
{
    print_table(results, WS_INPUT, WS_INPUT + 1);
    print_table(results, WS_OUTPUT, WS_OUTPUT + 1);
    print_table(results, WS_SIZE_COLUMN, WS_COLUMNS);
    print_absent(results);
}
