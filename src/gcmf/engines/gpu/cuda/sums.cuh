// What the cells of a row sum up to, SUMS numbers of float64: the upper triangle of Σ w ū_j ū_jᵀ, row by row, then
// Σ wt ū_j, Σ w ū_j and Σ w ũ_j, (WIDTH) each, and scalars. WIDTH is the number of factors, padded.

#define TRIANGLE (WIDTH * (WIDTH + 1) / 2)
#define TARGET TRIANGLE
#define FIRST (TRIANGLE + WIDTH)
#define SPREAD (TRIANGLE + 2 * WIDTH)
#define WEIGHT (TRIANGLE + 3 * WIDTH)
#define TARGETS (WEIGHT + 1)
#define SQUARES (WEIGHT + 2)
#define VALUE (WEIGHT + 3)
#define BIAS_SPREAD (WEIGHT + 4)
#define SUMS (WEIGHT + 8)

// Where the product of two factors stands.
DEVICE int place_of(int k, int j) {
    int low = smallest(k, j), high = largest(k, j);
    return low * WIDTH - low * (low - 1) / 2 + high - low;
}
