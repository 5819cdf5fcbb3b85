/* input.c: from files to batches: lines one after the other, rows padded to the longest. */
#include "input.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define SAY(in, ...) snprintf((in)->problem, sizeof(in)->problem, __VA_ARGS__)

bool input_open(struct input *in, const struct options *o)
{
    char path[4096];

    *in = (struct input){.o = o, .next_file = o->files};
    if (o->ids) return true;
    snprintf(path, sizeof path, "%s/vocab.txt", o->model);
    in->vocabulary = vocabulary_read(path, in->problem, sizeof in->problem);
    return in->vocabulary != NULL;
}

static void close_file(struct input *in)
{
    if (in->file && in->file != stdin) fclose(in->file);
    in->file = NULL;
}

void input_close(struct input *in)
{
    close_file(in);
    vocabulary_free(in->vocabulary);
    in->vocabulary = NULL;
}

/* The next file, or standard input when none was named: 1; 0 when there is no more, -1 on failure.
 */
static int open_next(struct input *in)
{
    bool first = in->name == NULL;

    close_file(in);
    if (first && !*in->next_file) {
        in->name = "standard input";
        in->file = stdin;
        return 1;
    }
    if (!*in->next_file) return 0;
    in->name = *in->next_file++;
    in->file = fopen(in->name, "r");
    if (!in->file) SAY(in, "cannot read %s: %s", in->name, strerror(errno));
    return in->file ? 1 : -1;
}

/* The next line without its end: 1; 0, -1 as above. */
static int next_line(struct input *in, char **line, size_t *room)
{
    while (true) {
        ssize_t got;
        int opened;

        errno = 0;
        got = in->file ? getline(line, room, in->file) : -1;
        if (got >= 0) {
            (*line)[strcspn(*line, "\r\n")] = '\0';
            return 1;
        }
        if (in->file && ferror(in->file)) {
            SAY(in, "cannot read %s: %s", in->name, strerror(errno));
            return -1;
        }
        opened = open_next(in);
        if (opened <= 0) return opened;
    }
}

/* Numbers between spaces; what is beyond o->length is cut. -1 for what is no number. */
static int read_numbers(struct input *in, const char *line, int32_t *ids)
{
    int count = 0;

    for (line += strspn(line, " \t"); *line; line += strspn(line, " \t")) {
        char *end;
        long value = strtol(line, &end, 10);

        if (end == line || strcspn(end, " \t") > 0 || value < 0 || value > INT32_MAX) {
            SAY(in, "%s: \"%.60s\" is no list of token numbers", in->name, line);
            return -1;
        }
        if (count < in->o->length) ids[count++] = (int32_t)value;
        line = end;
    }
    if (count == 0) SAY(in, "%s: a line without token numbers", in->name);
    return count > 0 ? count : -1;
}

/* Rows of o->length become rows of the longest one's width, padded by zeros. */
static void pack(struct batch *batch, int length)
{
    batch->width = 0;
    for (int i = 0; i < batch->rows; i++)
        if (batch->lengths[i] > batch->width) batch->width = batch->lengths[i];
    for (int i = 0; i < batch->rows; i++) {
        int32_t *row = batch->ids + (ptrdiff_t)i * batch->width;

        memmove(row, batch->ids + (ptrdiff_t)i * length, (size_t)batch->lengths[i] * sizeof *row);
        for (int k = batch->lengths[i]; k < batch->width; k++) row[k] = 0;
    }
}

int input_next(struct input *in, struct batch *batch)
{
    char *line = NULL;
    size_t room = 0;
    int got = 1;

    batch->rows = 0;
    while (got > 0 && batch->rows < in->o->batch) {
        int32_t *ids = batch->ids + (ptrdiff_t)batch->rows * in->o->length;
        int count;

        got = next_line(in, &line, &room);
        if (got <= 0) break;
        count = in->o->ids ? read_numbers(in, line, ids)
                           : tokenize(in->vocabulary, line, ids, in->o->length);
        if (count < 0) got = -1;
        if (count > 0) batch->lengths[batch->rows++] = count;
    }
    free(line);
    if (got < 0) return -1;
    pack(batch, in->o->length);
    return batch->rows;
}
