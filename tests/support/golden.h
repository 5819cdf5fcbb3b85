/* golden.h: reads tests/golden/NAME.txt (its format: tests/golden/PROVENANCE.md). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <weft/module.h>
#include <weft/optim.h>

#include "support/near.h"

struct wt_golden;

/** The case fails when the file cannot be read or does not end as it should, and owns what it
 * gives. */
struct wt_golden *wt_golden_open(const char *name);

/** Element i of a parameter or input that PROVENANCE.md makes by formula. */
double wt_golden_formula(int64_t i, int index, double scale, double offset);

/** Give every parameter of a module (plain, f64) its start value; false when names or shapes
 * differ. */
bool wt_golden_load(const struct wt_golden *golden, weft_module *m);

/** Is the tensor what the file says under this name, element by element or by digest?
 *  ranks: collective over its mesh when it is distributed */
bool wt_golden_matches(const struct wt_golden *golden, const char *name, weft_tensor *t,
                       struct wt_tolerance tolerance);

/** Assert that all trained parameters of a module ("after"), or their gradients ("grad"), are what
 * the file says; one that is not trained has no gradient. */
void wt_golden_parameters(const struct wt_golden *golden, weft_module *m, const char *prefix,
                          double bound);

/** A step of training from its loss: backward, the step of an optimizer (NULL: none), then the end
 * of the scope in which the loss was made. returns: the loss */
double wt_step_on_loss(weft_scope *scope, weft_tensor *loss, weft_optim *optim);

/** The same of a training: what the module gives, gradients, losses of three steps of AdamW and
 * weights after them; gradients and weights within ten times the bound. */
void wt_golden_train(const struct wt_golden *golden, weft_module *m,
                     weft_tensor *(*result)(weft_module *m), weft_tensor *(*loss)(weft_module *m),
                     double bound);
