/* objects.c: a tensor, a module, a mesh, ... of every sort that public functions take. trial 3 */
#include <stdio.h>
#include <string.h>

#include "fuzz/api/api.h"

enum { ARGUMENTS = 12, LIST = 8, ROOM = 64, BYTES = 1 << 16, TENSORS = 8 };

/* Each argument has objects of its own: a call may release them. */
static struct objects {
    weft_tensor *tensors[TENSORS];
    weft_module *modules[3];
    weft_optim *optim;
    weft_step_graph *step_graph;
    weft_compiled *compiled;
    weft_generator *generator;
    weft_state *state;
    weft_plan *plan;
    weft_weight_names *names;
    weft_layout layout;
    weft_dtensor_spec flat;
    weft_tensor *list[LIST];
    weft_mesh *meshes[LIST];
    const char *texts[LIST];
    weft_placement placements[LIST];
    int64_t integers[ROOM];
    int numbers[ROOM];
    char text[16], odd[16];
} objects[ARGUMENTS];

static weft_mesh *mesh;
static weft_ledger *ledger;
static weft_trace *trace;
static weft_weights *weights;
static weft_scope *scope;
static FILE *file;
/* What a call writes to, and structures of which all is 0. */
static _Alignas(16) char room[ARGUMENTS][BYTES];

static void make_tensors(struct objects *o)
{
    weft_spec spec = {.ndim = 2, .shape = {4, 4}};

    o->tensors[0] = weft_make_ones(spec);
    spec.requires_grad = true;
    o->tensors[1] = weft_make_ones(spec);
    spec.mesh = mesh;
    o->tensors[2] = weft_make_ones(spec);
    spec.placements[0] = weft_shard(0);
    spec.requires_grad = false;
    o->tensors[3] = weft_make_ones(spec);
    o->tensors[4] = weft_make_ones((weft_spec){.dtype = WEFT_I64, .ndim = 2, .shape = {4, 4}});
    o->tensors[5] = weft_make_ones((weft_spec){0});
    o->tensors[6] = weft_make_ones((weft_spec){.dtype = WEFT_BOOL, .ndim = 3, .shape = {2, 0, 3}});
    o->tensors[7] = weft_mul(o->tensors[1], o->tensors[1]);
    for (int i = 0; i < LIST; i++) o->list[i] = o->tensors[0];
}

static void make(struct objects *o)
{
    weft_layout layout;

    make_tensors(o);
    o->modules[0] = weft_linear_new((weft_linear_config){.in = {4}, .out = {4}});
    o->modules[1] =
        weft_gpt((weft_gpt_config){.vocab = 4, .context = 4, .width = 4, .heads = 2, .layers = 1});
    o->modules[2] = weft_sequential_new();
    o->optim = weft_sgd(o->modules[0], (weft_sgd_config){.lr = 0.1});
    o->step_graph = weft_step_graph_new(mesh, api_function_weft_step_function, NULL);
    o->compiled = weft_compile(api_function_weft_compiled_function, NULL, (weft_compile_config){0});
    o->generator = weft_generator_new(1);
    o->state = weft_state_new();
    weft_state_add_tensor(o->state, "tensor", o->tensors[0]);
    o->plan = weft_plan_parse(". colwise");
    o->names = weft_weight_names_under(weft_weight_names_of_family("gpt2"), "name");
    o->placements[0] = weft_shard(0);
    for (int i = 1; i < LIST; i++) o->placements[i] = weft_replicate();
    weft_layout_make(&layout, mesh, o->placements, 1, (int64_t[]){4, 4}, 2);
    o->layout = layout;
    o->flat = (weft_dtensor_spec){.layout = layout};
    for (int i = 0; i < LIST; i++) o->meshes[i] = mesh;
    for (int i = 0; i < LIST; i++) o->texts[i] = o->text;
    strcpy(o->text, "name");
    strcpy(o->odd, "\x80\x01//..=,:");
}

void api_objects_make(void)
{
    const weft_named_tensor named = {"name", weft_make_ones((weft_spec){.ndim = 1, .shape = {4}})};

    mesh = weft_mesh_new(WEFT_CPU, "tp=1");
    for (int i = 0; i < ARGUMENTS; i++) make(&objects[i]);
    ledger = weft_ledger_open();
    trace = weft_trace_open(NULL);
    weft_weights_write("a.safetensors", &named, 1);
    weights = weft_weights_open("a.safetensors");
    scope = weft_scope_open();
    file = fopen("/dev/null", "w");
}

void *api_object(const char *type, int i, unsigned variant)
{
    struct objects *o = &objects[i];
    const struct {
        const char *type;
        void *object;
    } table[] = {
        {"weft_tensor", o->tensors[variant % TENSORS]},
        {"weft_tensor *", o->list},
        {"weft_module", o->modules[variant % 3]},
        {"weft_mesh", mesh},
        {"weft_mesh *", o->meshes},
        {"weft_optim", o->optim},
        {"weft_step_graph", o->step_graph},
        {"weft_compiled", o->compiled},
        {"weft_generator", o->generator},
        {"weft_state", o->state},
        {"weft_plan", o->plan},
        {"weft_weights", weights},
        {"weft_weight_names", o->names},
        {"weft_ledger", ledger},
        {"weft_trace", trace},
        {"weft_scope", scope},
        {"weft_layout", &o->layout},
        {"weft_dtensor_spec", &o->flat},
        {"weft_placement", o->placements},
        {"weft_rule", NULL}, /* lives in a rule function only */
        {"FILE", file},
        {"char", variant % 8 == 7 ? o->odd : o->text},
        {"char *", o->texts},
        {"int64_t", o->integers},
        {"int", o->numbers},
    };

    for (size_t k = 0; k < sizeof table / sizeof *table; k++)
        if (strcmp(table[k].type, type) == 0) return table[k].object;
    return room[i];
}

void *api_value(const struct api_call *call, int i, const char *type, size_t bytes)
{
    memset(room[i], 0, bytes);
    if (strcmp(type, "weft_spec") == 0 && call->pass != API_NULLS)
        *(weft_spec *)(void *)room[i] = (weft_spec){.ndim = 2, .shape = {4, 4}};
    return room[i];
}

/* ---- functions that calls give ---- */

int api_function_body(void *payload) { return payload == NULL; }
void api_function_release(void *payload) { (void)payload; }

weft_status api_function_weft_input_function(weft_module *m, weft_tensor **inputs, int n,
                                             weft_mesh *over, void *payload)
{
    (void)m, (void)inputs, (void)n, (void)over, (void)payload;
    return WEFT_OK;
}

weft_status api_function_weft_input_hook(weft_module *m, weft_tensor **inputs, int n, void *payload)
{
    (void)m, (void)inputs, (void)n, (void)payload;
    return WEFT_OK;
}

weft_tensor *api_function_weft_output_function(weft_module *m, weft_tensor *output, weft_mesh *over,
                                               void *payload)
{
    (void)m, (void)over, (void)payload;
    return output;
}

weft_tensor *api_function_weft_output_hook(weft_module *m, weft_tensor *output, void *payload)
{
    (void)m, (void)payload;
    return output;
}

weft_status api_function_weft_outputs_hook(weft_module *m, weft_tensor **outputs, int n,
                                           void *payload)
{
    (void)m, (void)outputs, (void)n, (void)payload;
    return WEFT_OK;
}

weft_status api_function_weft_parameter_visitor(weft_module *m, const char *name,
                                                weft_tensor *parameter, void *payload)
{
    (void)m, (void)name, (void)parameter, (void)payload;
    return WEFT_OK;
}

weft_status api_function_weft_partition_function(weft_module *m, weft_mesh *over, void *payload)
{
    (void)m, (void)over, (void)payload;
    return WEFT_OK;
}

weft_tensor *api_function_weft_recomputable(weft_tensor *const *in, int n, void *payload)
{
    (void)payload;
    return n > 0 ? in[0] : NULL;
}

weft_status api_function_weft_rule_function(const weft_op_info *info, weft_rule *rule,
                                            void *payload)
{
    (void)info, (void)rule, (void)payload;
    return WEFT_OK;
}

weft_tensor *api_function_weft_step_function(weft_tensor *const *in, int n, void *payload)
{
    (void)payload;
    return n > 0 ? in[0] : NULL;
}

weft_status api_function_weft_compile_backend(const weft_list *list, weft_list_runner *runner)
{
    (void)list, (void)runner;
    return WEFT_OK;
}

weft_status api_function_weft_compiled_function(weft_tensor *const *in, int n_in, weft_tensor **out,
                                                int n_out, void *state)
{
    (void)state;
    for (int i = 0; i < n_out; i++) out[i] = n_in > 0 ? in[0] : NULL;
    return WEFT_OK;
}

weft_status api_function_weft_tensor_visitor(const weft_module_tensor *it, void *payload)
{
    (void)it, (void)payload;
    return WEFT_OK;
}
