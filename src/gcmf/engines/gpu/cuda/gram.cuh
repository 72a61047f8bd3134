// The sums of a task's cells, 32 at a time, each lane with one of them: its partner, weight w and weighted target wt.
// Two ways to have Σ w ū ūᵀ: by products of small matrices (float32 up to 64 factors), or by panels of 32 × 32 factors.
// In the row of a partner its means come first, then its variances; beyond the last partner stands a row of zeros.
// For the first way, partners' rows are copied to fast memory: those of the next 32 cells, while these are worked on.

#define TENSOR (SINGLE_PRECISION && WIDTH <= 64)
#define UNWEIGHED (KIND == SQUARES_KIND)

DEVICE void put(double* out, int place, double value, bool fresh) { out[place] = fresh ? value : out[place] + value; }

#if TENSOR
// Lane 4g + t has factors OWN g to OWN g + OWN − 1 of the cells t and t + 4 of eight: as rows and as columns of a product
// these are the same numbers, and one load of each cell is all there is to do.
#define OWN (WIDTH / 8)
#define PAIRS (OWN / 2)
#define TILES (PAIRS * (PAIRS + 1))
// Where a partner's row begins in fast memory: a little apart, so that lanes do not wait for each other.
#define STRIDE (2 * WIDTH + 8)

DEVICE void begin_partners(const float* pairs, int partner, float* room) {
#pragma unroll 4
    for (int n = 0; n < WIDTH / 2; n++) {
        int unit = 32 * n + lane_of(), cell = unit / (WIDTH / 2), part = unit % (WIDTH / 2);
        begin_copy(room + cell * STRIDE + 4 * part, pairs + (word)from_lane(partner, cell) * (2 * WIDTH) + 4 * part);
    }
}

// Eights of cells whose loads a warp begins at once.
constexpr int at_once = EIGHTS_AT_ONCE;

struct Split {
    unsigned high, low;
};

// x = high + low, each of 11 bits: what three products lose of x y is 2⁻²² of it.
DEVICE Split split(float x) {
    unsigned high = (bits_of(x) + 0x1000u) & 0xffffe000u;
    Split parts = {high, bits_of(x - float_of(high))};
    return parts;
}

DEVICE void read_own(float* own, const float* from) {
#ifdef EMULATED
    for (int q = 0; q < OWN; q++) own[q] = from[q];
#elif WIDTH % 32 == 0
    for (int q = 0; q < OWN; q += 4) {
        float4 four = *(const float4*)(from + q);
        own[q] = four.x, own[q + 1] = four.y, own[q + 2] = four.z, own[q + 3] = four.w;
    }
#else
    for (int q = 0; q < OWN; q += 2) {
        float2 two = *(const float2*)(from + q);
        own[q] = two.x, own[q + 1] = two.y;
    }
#endif
}

struct Sums {
    float tile[TILES][4], target[OWN], first[OWN], spread[OWN];

    DEVICE void clear() {
#pragma unroll
        for (int n = 0; n < TILES; n++) tile[n][0] = tile[n][1] = tile[n][2] = tile[n][3] = 0;
#pragma unroll
        for (int q = 0; q < OWN; q++) target[q] = first[q] = spread[q] = 0;
    }

    DEVICE void add(const float* room, float w, float wt) {
        int lane = lane_of(), g = lane >> 2, t = lane & 3;
        // The units that multiply do not round but cut off: so little is left to them, where registers allow.
#if SUMMED_APART
        float product[TILES][4];
#pragma unroll
        for (int n = 0; n < TILES; n++) product[n][0] = product[n][1] = product[n][2] = product[n][3] = 0;
#else
        float(*product)[4] = tile;
#endif
#pragma unroll at_once
        for (int eight = 0; eight < 32; eight += 8) {
            Split right[2][OWN], left[2][OWN];
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int cell = eight + 4 * half + t;
                float own_wt = from_lane(wt, cell), own_w = UNWEIGHED ? 1.0f : from_lane(w, cell);
                float u[OWN], u_var[OWN];
                const float* row = room + cell * STRIDE + OWN * g;
                read_own(u, row);
                read_own(u_var, row + WIDTH);
#pragma unroll
                for (int q = 0; q < OWN; q++) {
                    float wu = UNWEIGHED ? u[q] : own_w * u[q];
                    target[q] += own_wt * u[q];
                    first[q] += wu;
                    spread[q] += UNWEIGHED ? u_var[q] : own_w * u_var[q];
                    right[half][q] = split(u[q]);
                    left[half][q] = UNWEIGHED ? right[half][q] : split(wu);
                }
            }
            int n = 0;
#pragma unroll
            for (int i = 0; i < PAIRS; i++) {
                const Split &a0 = left[0][2 * i], &a1 = left[0][2 * i + 1], &a2 = left[1][2 * i], &a3 = left[1][2 * i + 1];
#pragma unroll
                for (int q = 2 * i; q < OWN; q++, n++) {
                    const Split &b0 = right[0][q], &b1 = right[1][q];
                    multiply(product[n], a0.low, a1.low, a2.low, a3.low, b0.high, b1.high);
                    multiply(product[n], a0.high, a1.high, a2.high, a3.high, b0.low, b1.low);
                    multiply(product[n], a0.high, a1.high, a2.high, a3.high, b0.high, b1.high);
                }
            }
        }
#if SUMMED_APART
#pragma unroll
        for (int n = 0; n < TILES; n++)
#pragma unroll
            for (int c = 0; c < 4; c++) tile[n][c] += product[n][c];
#endif
    }

    // By way of fast memory, so that lanes write side by side; what lies there is lost.
    DEVICE void flush(double* out, bool fresh, float* room) {
        // Places that were computed before the loop over cells would take its registers.
        int lane = lane_of_now(), g = lane >> 2, t = lane & 3, n = 0;
        meet();
#pragma unroll
        for (int i = 0; i < PAIRS; i++) {
#pragma unroll
            for (int q = 2 * i; q < OWN; q++, n++) {
#pragma unroll
                for (int c = 0; c < 4; c++) {
                    int p = 2 * i + (c >> 1), other = 2 * t + (c & 1);
                    // Within a block of the diagonal every product is there twice.
                    if (p < q || (p == q && g <= other)) room[place_of(OWN * g + p, OWN * other + q)] = tile[n][c];
                }
            }
        }
#pragma unroll
        for (int q = 0; q < OWN; q++) {
            float a = target[q] + across(target[q], 1), b = first[q] + across(first[q], 1);
            float c = spread[q] + across(spread[q], 1);
            a += across(a, 2);
            b += across(b, 2);
            c += across(c, 2);
            if (t == 0) {
                room[TARGET + OWN * g + q] = a;
                room[FIRST + OWN * g + q] = b;
                room[SPREAD + OWN * g + q] = c;
            }
        }
        meet();
#pragma unroll 4
        for (int place = lane; place < WEIGHT; place += 32) put(out, place, room[place], fresh);
        meet();
        clear();
    }
};

#else

#define PANELS (WIDTH / 32)

// Lane l has row 32 I + l of panel (I, J). Where one panel is all, it stays in registers.
struct Sums {
    real tile[32], target[PANELS], first[PANELS], spread[PANELS];

    DEVICE void clear() {
#pragma unroll
        for (int k = 0; k < 32; k++) tile[k] = 0;
#pragma unroll
        for (int p = 0; p < PANELS; p++) target[p] = first[p] = spread[p] = 0;
    }

    DEVICE void add_panel(const real* pairs, int partner, real w, int I, int J) {
        for (int c = 0; c < 32; c++) {
            const real* row = pairs + (word)from_lane(partner, c) * (2 * WIDTH);
            real a = (UNWEIGHED ? (real)1 : from_lane(w, c)) * row[32 * I + lane_of()];
#pragma unroll
            for (int k = 0; k < 32; k++) tile[k] += a * row[32 * J + k];
        }
    }

    DEVICE void put_panel(double* out, int I, int J, bool fresh) {
        int own = 32 * I + lane_of();
#pragma unroll
        for (int k = 0; k < 32; k++) {
            if (own <= 32 * J + k) put(out, place_of(own, 32 * J + k), tile[k], fresh);
            tile[k] = 0;
        }
    }

    DEVICE void add(const real* pairs, int partner, real w, real wt, double* out, bool fresh) {
        for (int c = 0; c < 32; c++) {
            const real* row = pairs + (word)from_lane(partner, c) * (2 * WIDTH) + lane_of();
            real own_w = UNWEIGHED ? (real)1 : from_lane(w, c), own_wt = from_lane(wt, c);
#pragma unroll
            for (int p = 0; p < PANELS; p++) {
                target[p] += own_wt * row[32 * p];
                first[p] += own_w * row[32 * p];
                spread[p] += own_w * row[32 * p + WIDTH];
            }
        }
        if (PANELS == 1) {
            add_panel(pairs, partner, w, 0, 0);
            return;
        }
        for (int I = 0; I < PANELS; I++)
            for (int J = I; J < PANELS; J++) {
                add_panel(pairs, partner, w, I, J);
                put_panel(out, I, J, fresh);
            }
        put_lines(out, fresh);
    }

    DEVICE void put_lines(double* out, bool fresh) {
#pragma unroll
        for (int p = 0; p < PANELS; p++) {
            int k = 32 * p + lane_of();
            put(out, TARGET + k, target[p], fresh);
            put(out, FIRST + k, first[p], fresh);
            put(out, SPREAD + k, spread[p], fresh);
            target[p] = first[p] = spread[p] = 0;
        }
    }

    // Wider sums are there already, unless there was no cell at all.
    DEVICE void flush(double* out, bool fresh, real*) {
        if (PANELS > 1 && !fresh) return;
        for (int I = 0; I < PANELS; I++)
            for (int J = I; J < PANELS; J++) put_panel(out, I, J, fresh);
        put_lines(out, fresh);
    }
};
#endif
