/* golden.h: reads tests/golden/NAME.txt (its format: tests/golden/PROVENANCE.md). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/module.h>

#include "support/near.h"

struct wt_golden;

/** NULL when the file cannot be read or does not end as it should. */
struct wt_golden *wt_golden_open(const char *name);
void wt_golden_close(struct wt_golden *golden);

/** Element i of a parameter or input that PROVENANCE.md makes by formula. */
double wt_golden_formula(int64_t i, int index, double scale, double offset);

/** Give every parameter of a module (plain, f64) its start value; false when names or shapes
 * differ. */
bool wt_golden_load(const struct wt_golden *golden, weft_module *m);

/** Is the tensor what the file says under this name, element by element or by digest?
 *  ranks: collective over its mesh when it is distributed */
bool wt_golden_matches(const struct wt_golden *golden, const char *name, weft_tensor *t,
                       struct wt_tolerance tolerance);
