/*
 * decompositions.c: eigenvalues and vectors of symmetric matrices, singular values and vectors.
 *
 * Symmetric (Golub and Van Loan, Matrix Computations, 8.3): Householder reflections make the matrix
 * tridiagonal, implicit QL steps with Wilkinson's shift diagonal. Vectors are kept in rows, so that
 * every inner loop runs over memory in order.
 *
 * Singular values by one-sided Jacobi rotations (Hestenes 1958): rows of B are turned in pairs
 * until all are orthogonal; then their lengths are the singular values. B is first multiplied by
 * the eigenvectors of B B^T, after which two or three sweeps are enough; the rotations make good
 * what squaring loses, so small singular values are as exact as large ones.
 */
#include "kernels/cpu/products/decompositions.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { QL_STEPS = 60, SWEEPS = 40 };

/** Beside elements of about 1: its square is no normal number. */
#define NOTHING 1e-150

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;

#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/** y += factor x */
static void add_scaled(double factor, const double *x, double *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) y[i] += factor * x[i];
}

/** x becomes c x - s y, y becomes s x + c y. */
static void rotate(double c, double s, double *restrict x, double *restrict y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        double old = x[i];

        x[i] = c * old - s * y[i];
        y[i] = s * old + c * y[i];
    }
}

static void scale_row(double factor, double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) x[i] *= factor;
}

static void swap_rows(double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        double old = x[i];

        x[i] = y[i];
        y[i] = old;
    }
}

/** The exponent of the largest element: scaled by it, nothing overflows when it is squared. False
 * where an element is not finite. */
static bool find_exponent(const double *a, int64_t n, int *exponent)
{
    double largest = 0, sum = 0;

    for (int64_t i = 0; i < n; i++) {
        sum += 0 * a[i];
        if (fabs(a[i]) > largest) largest = fabs(a[i]);
    }
    *exponent = 0;
    if (largest > 0) frexp(largest, exponent);
    return sum == 0;
}

/** Turns the row so that its largest element is positive; true when it was turned. */
static bool fix_sign(double *x, int64_t n)
{
    int64_t at = 0;

    for (int64_t i = 1; i < n; i++)
        if (fabs(x[i]) > fabs(x[at])) at = i;
    if (n == 0 || x[at] >= 0) return false;
    scale_row(-1, x, n);
    return true;
}

/* ---- symmetric matrices ---- */

/**
 * a becomes tridiagonal with `diagonal` and `beside` it (n - 1 elements), w the product of the
 * reflections that do it: w a w^T is tridiagonal.
 */
static void make_tridiagonal(int64_t n, double *a, double *w, double *diagonal, double *beside,
                             double *factor, double *product)
{
    for (int64_t k = 0; k + 2 < n; k++) {
        int64_t m = n - k - 1;
        double *v = a + k * n + k + 1, length = sqrt(dot(v, v, m)); /* row k stays behind as v */

        beside[k] = factor[k] = 0;
        if (length < NOTHING) continue;
        beside[k] = v[0] > 0 ? -length : length;
        v[0] -= beside[k];
        factor[k] = 2 / dot(v, v, m);
        for (int64_t i = 0; i < m; i++)
            product[i] = factor[k] * dot(a + (k + 1 + i) * n + k + 1, v, m);
        add_scaled(-factor[k] / 2 * dot(product, v, m), v, product, m);
        for (int64_t i = 0; i < m; i++) {
            double *row = a + (k + 1 + i) * n + k + 1, mine = v[i], other = product[i];

#pragma omp simd
            for (int64_t j = 0; j < m; j++) row[j] -= mine * product[j] + other * v[j];
        }
    }
    if (n > 1) beside[n - 2] = a[(n - 2) * n + n - 1];
    for (int64_t i = 0; i < n; i++) diagonal[i] = a[i * n + i];
    memset(w, 0, (size_t)(n * n) * sizeof *w);
    for (int64_t i = 0; i < n; i++) w[i * n + i] = 1;
    for (int64_t k = n - 3; k >= 0; k--) {
        int64_t m = n - k - 1;
        const double *v = a + k * n + k + 1;

        for (int64_t i = k + 1; i < n; i++) {
            double *row = w + i * n + k + 1;

            add_scaled(-factor[k] * dot(row, v, m), v, row, m);
        }
    }
}

/** One implicit QL step on rows first .. last. */
static void ql_step(int64_t n, int64_t first, int64_t last, double *diagonal, double *beside,
                    double *w)
{
    double slope = (diagonal[first + 1] - diagonal[first]) / (2 * beside[first]);
    double bulge = diagonal[last] - diagonal[first] +
                   beside[first] / (slope + copysign(hypot(slope, 1), slope));
    double s = 1, c = 1, shift = 0;

    for (int64_t i = last - 1; i >= first; i--) {
        double across = s * beside[i], along = c * beside[i], size = hypot(across, bulge), mixed;

        beside[i + 1] = size;
        if (size == 0) { /* the matrix falls apart here */
            diagonal[i + 1] -= shift;
            beside[last] = 0;
            return;
        }
        s = across / size;
        c = bulge / size;
        bulge = diagonal[i + 1] - shift;
        mixed = (diagonal[i] - bulge) * s + 2 * c * along;
        shift = s * mixed;
        diagonal[i + 1] = bulge + shift;
        bulge = c * mixed - along;
        rotate(c, s, w + i * n, w + (i + 1) * n, n);
    }
    diagonal[first] -= shift;
    beside[first] = bulge;
    beside[last] = 0;
}

/** diagonal becomes the eigenvalues, rows of w are turned along. `beside` has n elements. */
static bool make_diagonal(int64_t n, double *diagonal, double *beside, double *w)
{
    if (n) beside[n - 1] = 0;
    for (int64_t first = 0; first < n; first++) {
        int steps = 0;

        for (;;) {
            int64_t last = first;

            while (last + 1 < n &&
                   fabs(beside[last]) >
                       DBL_EPSILON / 2 * (fabs(diagonal[last]) + fabs(diagonal[last + 1])))
                last++;
            if (last == first) break;
            if (steps++ == QL_STEPS) return false;
            ql_step(n, first, last, diagonal, beside, w);
        }
    }
    return true;
}

/** Rows in the order of their values. */
static void sort_rows(int64_t n, double *values, double *rows, int64_t length, bool descending)
{
    for (int64_t i = 0; i + 1 < n; i++) {
        int64_t at = i;

        for (int64_t j = i + 1; j < n; j++)
            if (descending ? values[j] > values[at] : values[j] < values[at]) at = j;
        if (at == i) continue;
        swap_rows(values + i, values + at, 1);
        swap_rows(rows + i * length, rows + at * length, length);
    }
}

static int64_t eigh_scratch(int64_t n) { return n * n + 3 * n; }

/** a: destroyed; w: eigenvectors in rows, in no order. */
static bool diagonalize(int64_t n, double *a, double *values, double *w, double *scratch)
{
    double *beside = scratch, *factor = beside + n, *product = factor + n;

    make_tridiagonal(n, a, w, values, beside, factor, product);
    return make_diagonal(n, values, beside, w);
}

static bool eigh(int64_t n, const double *a, double *values, double *vectors, double *scratch)
{
    int exponent;

    if (!find_exponent(a, n * n, &exponent)) return false;
    for (int64_t i = 0; i < n * n; i++) scratch[i] = ldexp(a[i], -exponent);
    if (!diagonalize(n, scratch, values, vectors, scratch + n * n)) return false;
    sort_rows(n, values, vectors, n, false);
    for (int64_t i = 0; i < n; i++) {
        fix_sign(vectors + i * n, n);
        values[i] = ldexp(values[i], exponent);
    }
    return true;
}

/* ---- singular values ---- */

/** Rows p and q of b are made orthogonal, rows of left turned along; false: they were already. */
static bool orthogonalize(int64_t rows, int64_t cols, double *b, double *left, double *squares,
                          int64_t p, int64_t q)
{
    double *x = b + p * cols, *y = b + q * cols, both = dot(x, y, cols), slope, t, c;

    if (fabs(both) <= DBL_EPSILON * sqrt(squares[p]) * sqrt(squares[q]) || both == 0) return false;
    slope = (squares[q] - squares[p]) / (2 * both);
    t = copysign(1, slope) / (fabs(slope) + hypot(1, slope));
    c = 1 / hypot(1, t);
    rotate(c, c * t, x, y, cols);
    rotate(c, c * t, left + p * rows, left + q * rows, rows);
    squares[p] = dot(x, x, cols);
    squares[q] = dot(y, y, cols);
    return true;
}

static void sweep_until_orthogonal(int64_t rows, int64_t cols, double *b, double *left,
                                   double *squares)
{
    bool turned = true;

    for (int sweep = 0; turned && sweep < SWEEPS; sweep++) {
        turned = false;
        for (int64_t i = 0; i < rows; i++) squares[i] = dot(b + i * cols, b + i * cols, cols);
        for (int64_t p = 0; p < rows; p++)
            for (int64_t q = p + 1; q < rows; q++)
                turned |= orthogonalize(rows, cols, b, left, squares, p, q);
    }
}

/** to = w b, with w [rows, rows] */
static void multiply(int64_t rows, int64_t cols, const double *w, const double *b, double *to)
{
    memset(to, 0, (size_t)(rows * cols) * sizeof *to);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t l = 0; l < rows; l++)
            add_scaled(w[i * rows + l], b + l * cols, to + i * cols, cols);
}

/** Row `at` of b, which is 0, becomes a unit vector at right angles to the rows before it. */
static void complete_row(int64_t at, int64_t cols, double *b)
{
    double *x = b + at * cols;

    for (int64_t axis = 0; axis < cols; axis++) {
        double length;

        memset(x, 0, (size_t)cols * sizeof *x);
        x[axis] = 1;
        for (int twice = 0; twice < 2; twice++)
            for (int64_t i = 0; i < at; i++)
                add_scaled(-dot(b + i * cols, x, cols), b + i * cols, x, cols);
        length = sqrt(dot(x, x, cols));
        scale_row(1 / length, x, cols);
        if (length > 0.5 / sqrt((double)cols)) return; /* one axis at least is as far off as this */
    }
}

static int64_t svd_scratch(int64_t rows, int64_t cols)
{
    return rows * cols + rows * rows + 4 * rows;
}

static bool svd(int64_t rows, int64_t cols, const double *a, double *left, double *values,
                double *right, bool signs_of_right, double *scratch)
{
    double *b = scratch, *products = b + rows * cols, *rest = products + rows * rows;
    int exponent;

    if (!find_exponent(a, rows * cols, &exponent)) return false;
    for (int64_t i = 0; i < rows * cols; i++) b[i] = ldexp(a[i], -exponent);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j <= i; j++)
            products[i * rows + j] = products[j * rows + i] = dot(b + i * cols, b + j * cols, cols);
    if (!diagonalize(rows, products, values, left, rest)) return false;
    sort_rows(rows, values, left, rows, true);
    multiply(rows, cols, left, b, right);
    sweep_until_orthogonal(rows, cols, right, left, values);
    for (int64_t i = 0; i < rows; i++)
        values[i] = sqrt(dot(right + i * cols, right + i * cols, cols));
    /* both sides in one order */
    memcpy(rest, values, (size_t)rows * sizeof *values);
    sort_rows(rows, rest, left, rows, true);
    sort_rows(rows, values, right, cols, true);
    for (int64_t i = 0; i < rows; i++) {
        if (values[i] > NOTHING) {
            scale_row(1 / values[i], right + i * cols, cols);
        } else {
            values[i] = 0;
            complete_row(i, cols, right);
        }
        values[i] = ldexp(values[i], exponent);
        if (signs_of_right) {
            if (fix_sign(right + i * cols, cols)) scale_row(-1, left + i * rows, rows);
        } else if (fix_sign(left + i * rows, rows)) {
            scale_row(-1, right + i * cols, cols);
        }
    }
    return true;
}

const struct wf_decomposition_loops WF_ISA_NAME(wf_decompositions) = {
    .eigh_scratch = eigh_scratch,
    .svd_scratch = svd_scratch,
    .eigh = eigh,
    .svd = svd,
};
