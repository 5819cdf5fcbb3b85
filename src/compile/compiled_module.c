/* compiled_module.c: modules whose calls are compiled. */
#include <fnmatch.h>

#include "base/error.h"
#include "base/mem.h"
#include "compile/compiled.h"
#include "nn/module.h"
#include "tensor/tensor.h"

static weft_status run_module(weft_tensor *const *in, int n_in, weft_tensor **out, int n_out,
                              void *module)
{
    (void)n_out;
    return wf_module_run_call(module, in, n_in, out);
}

static weft_status call_compiled_module(weft_module *m, weft_tensor *const *in, int n,
                                        weft_tensor **outputs, void *compiled)
{
    return weft_compiled_call(compiled, in, n, outputs, wf_module_output_count(m));
}

static void release_compiled(void *compiled) { weft_compiled_release(compiled); }

static weft_status compile_one_module(weft_module *m, weft_compile_config config)
{
    weft_compiled *compiled;

    for (int i = 0; i < m->n_hooks; i++)
        WF_NEED(!m->hooks[i].instead, WEFT_ERR_STATE, "compile: module '%s' is compiled already",
                m->path);
    if (!config.name) config.name = m->path[0] ? m->path : m->kind->type;
    compiled = weft_compile(run_module, m, config);
    if (!compiled) return weft_error_status();
    compiled->function.module = m;
    return wf_module_add_hook(m, (struct wf_hook){.instead = call_compiled_module,
                                                  .payload = compiled,
                                                  .release = release_compiled});
}

weft_status weft_compile_module(weft_module *m, const char *paths, weft_compile_config config)
{
    weft_module **modules;
    weft_status status = WEFT_OK;
    int n, compiled = 0;

    WF_NEED_GIVEN(m, "compile: no module");
    if (!paths) return compile_one_module(m, config);
    modules = wf_module_list_tree(m, &n);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        if (fnmatch(paths, modules[i]->path, 0) != 0) continue;
        status = compile_one_module(modules[i], config);
        compiled++;
    }
    wf_free(modules);
    WF_NEED(status != WEFT_OK || compiled, WEFT_ERR_NOT_FOUND,
            "compile: no module of '%s' has a path like '%s'", m->path, paths);
    return status;
}

weft_compiled *weft_module_compiled(const weft_module *m)
{
    for (int i = 0; i < WF_HANDLE(m)->n_hooks; i++)
        if (m->hooks[i].instead == call_compiled_module) return m->hooks[i].payload;
    return NULL;
}
