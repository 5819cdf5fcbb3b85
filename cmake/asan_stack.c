/*
 * asan_stack.c: a test of the compiler's ASan. gcc 14 stores to an array beside a vector of 64 bytes with aligned stores,
 * because the array's address is a multiple of 64 on the ordinary stack. On ASan's stack for use after return the address
 * is a multiple of 32 (it looks like gcc bug 110027), so the store ends the program. This program is built like a kernel
 * for AVX-512; status 0 means that ASan's stack is aligned.
 */
typedef float whole __attribute__((vector_size(64)));
typedef float loose __attribute__((vector_size(64), aligned(4), may_alias));
struct pair {
    whole first, second;
};

/* The address leaves the function, so ASan moves the array to its stack. */
static void keep(const float *array) { __asm__ volatile("" : : "r"(array) : "memory"); }

__attribute__((noinline)) static struct pair make_pair(float value)
{
    return (struct pair){{value}, {value}};
}

__attribute__((noinline)) static void fill(float value)
{
    float other[256], array[256];

    keep(other);
    for (int i = 0; i < 256; i += 16) *(loose *)(array + i) = make_pair(value).second;
    keep(array);
}

int main(void)
{
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx512f")) return 0;
#endif
    fill(1);
    return 0;
}
