// The passes over cells: `sum_cells` for a row's system, `measure_cells` for what its cells are worth. One warp per task.

// What kernels need of a block while they go over its cells: parameters of the kernel, which cost no registers and no
// memory accesses. Each is a word, whatever it holds.
#define CELL_PARAMETERS                                                                                                \
    word layout, word value_type, word nowhere, word valued, word center, word inverse_scale, word zero_weight,        \
        word indptr, word partner, word value, word weight, word members, word parameters, word tasks, word pairs,     \
        word partner_bias, word partner_precision, word sums, word values
#define HELD_CELLS                                                                                                     \
    {                                                                                                                  \
        (int)layout, (int)value_type, (int)nowhere, valued != 0, number_of(center), number_of(inverse_scale),          \
            (real)number_of(zero_weight), (const word*)indptr, (const int*)partner, (const void*)value,                \
            (const float*)weight, (const int*)members, (const double*)parameters, (const Task*)tasks,                  \
            (const real*)pairs, (const real*)partner_bias, (const double*)partner_precision, (double*)sums,            \
            (double*)values                                                                                            \
    }

struct Held {
    int layout, value_type, nowhere;
    bool valued;
    double center, inverse_scale;
    real zero_weight;
    const word* indptr;
    const int* partner;
    const void* value;
    const float* weight;
    const int* members;
    const double* parameters;
    const Task* tasks;
    const real *pairs, *partner_bias;
    const double* partner_precision;
    double *sums, *values;
};

struct Raw {  // a cell as it lies in memory: nothing is done with it until it must have come
    int partner;
    float single, times;
    double whole;
    unsigned char code;
    bool there;
};

struct Cell {
    int partner;     // `nowhere` if there is no such cell
    real x, times;   // standardised value; how many cells it stands for, times the precision of its partner
    real bias, bias_var;  // of the partner
};

DEVICE double value_at(const Held& block, word at) {
    if (block.value_type == SINGLE) return ((const float*)block.value)[at];
    if (block.value_type == DOUBLE) return ((const double*)block.value)[at];
    unsigned char code = ((const unsigned char*)block.value)[at];
    return code == 255 ? nan("") : (double)code;
}

// The value of member c in a row that is zero but for what it lists.
DEVICE double filled_value(const Held& block, word row, int c) {
    word first = block.indptr[row], last = block.indptr[row + 1], end = last;
    while (first < end) {
        word middle = (first + end) / 2;
        if (block.partner[middle] < c)
            first = middle + 1;
        else
            end = middle;
    }
    return first < last && block.partner[first] == c ? value_at(block, first) : 0.0;
}

DEVICE Raw load_raw(const Held& block, word row, word begin, int c, int last) {
    Raw raw = {0, 0, 1, 0, 0, c < last};
    if (!raw.there) return raw;
    if (block.layout == FILLED) {
        raw.partner = block.members[c];
        raw.whole = filled_value(block, row, c);
        return raw;
    }
    word at = begin + c;
    raw.partner = block.layout == LISTED ? fixed(block.partner + at) : fixed(block.members + c);
    if (block.value_type == SINGLE)
        raw.single = fixed((const float*)block.value + at);
    else if (block.value_type == DOUBLE)
        raw.whole = fixed((const double*)block.value + at);
    else
        raw.code = fixed((const unsigned char*)block.value + at);
    if (block.weight != 0) raw.times = fixed(block.weight + at);
    return raw;
}

DEVICE Cell settle_cell(const Held& block, const Raw& raw) {
    Cell cell = {block.nowhere, 0, 0, 0, 0};
    if (!raw.there) return cell;
    double x = raw.whole;
    if (block.layout != FILLED && block.value_type == SINGLE) x = raw.single;
    if (block.layout != FILLED && block.value_type == BYTES) x = raw.code == 255 ? nan("") : (double)raw.code;
    if (isnan(x)) return cell;
    cell.partner = raw.partner;
    cell.x = (real)((x - block.center) * block.inverse_scale);
    cell.times = raw.times;
#if KIND == WEIGHED_SQUARES_KIND
    if (block.partner_precision != 0) cell.times = (real)(raw.times * block.partner_precision[cell.partner]);
#endif
    cell.bias = block.partner_bias[2 * (word)cell.partner];
    cell.bias_var = block.partner_bias[2 * (word)cell.partner + 1];
    return cell;
}

// The cells of a task, 32 after the other: while these are worked on, the partners of the next ones are copied to fast
// memory, and those after them are read.
struct Cells {
    const Held& block;
    word row, begin;
    int start, last;
    Raw raw;
    Cell next;
#if TENSOR
    float *room, *other;
#endif

    DEVICE Cells(const Held& block, word row, const Task& task)
        : block(block), row(row), begin(block.indptr[row]), start(task.first), last(task.last) {
#if TENSOR
        room = (float*)shared_room + (threadIdx.x >> 5) * (64 * STRIDE) + 32 * STRIDE;
        other = room - 32 * STRIDE;
#endif
        raw = load_raw(block, row, begin, start + lane_of(), last);
        advance();
    }

    // Settle the cells that were read, begin to copy their partners, and read 32 more.
    DEVICE void advance() {
        next = settle_cell(block, raw);
#if TENSOR
        if (start < last) begin_partners(block.pairs, next.partner, other);
        commit_copies();
        float* kept = room;
        room = other;
        other = kept;
#endif
        start += 32;
        raw = load_raw(block, row, begin, start + lane_of(), last);
    }

    // Room in fast memory that nothing is copied to before the next cells are taken.
    DEVICE real* spare() const {
#if TENSOR
        return other;
#else
        return 0;
#endif
    }

    // The next 32 cells, while there are any; their partners are in fast memory, at the room that is returned.
    DEVICE bool take(Cell& cell, const real*& partners) {
        if (start - 32 >= last) return false;
        cell = next;
        meet();
#if TENSOR
        partners = room;
        advance();
        await_copies();
        meet();
#else
        partners = block.pairs;
        advance();
#endif
        return true;
    }
};

struct Row {  // the parameters of the row at hand, each lane with those that it needs
#if TENSOR
    float mean[OWN], second[OWN], var[OWN];
#else
    const double *mean, *var;
#endif
    real bias, bias_var;
};

DEVICE Row load_row(const Pass* pass, word b, word slot) {
    Row row;
    const double *mean = pass->row_mean + slot * WIDTH, *var = pass->row_var + slot * WIDTH;
#if TENSOR
    int g = lane_of() >> 2;
#pragma unroll
    for (int q = 0; q < OWN; q++) {
        float u = (float)mean[OWN * g + q], u_var = (float)var[OWN * g + q];
        row.mean[q] = u;
        row.second[q] = u * u + u_var;
        row.var[q] = u_var;
    }
#else
    row.mean = mean;
    row.var = var;
#endif
    row.bias = (real)pass->row_bias[slot * pass->n_blocks + b];
    row.bias_var = (real)pass->row_bias_var[slot * pass->n_blocks + b];
    return row;
}

// m = ū_i·ū_j + b̄_i + b̄_j and v = Σ [(ū_i² + ũ_i) ũ_j + ũ_i ū_j²] + b̃_i + b̃_j of each lane's cell.
DEVICE void predict(const Row& row, const real* partners, const Cell& cell, real& m, real& v) {
    m = v = 0;
#if TENSOR
    int lane = lane_of(), g = lane >> 2, t = lane & 3;
#pragma unroll
    for (int eight = 0; eight < 32; eight += 8) {
        float theta[2], wide[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const float* from = partners + (eight + 4 * half + t) * STRIDE + OWN * g;
            float u[OWN], u_var[OWN], a = 0, c = 0;
            read_own(u, from);
            read_own(u_var, from + WIDTH);
#pragma unroll
            for (int q = 0; q < OWN; q++) {
                a += row.mean[q] * u[q];
                c += row.second[q] * u_var[q] + row.var[q] * u[q] * u[q];
            }
#pragma unroll
            for (int mask = 4; mask < 32; mask <<= 1) {
                a += across(a, mask);
                c += across(c, mask);
            }
            theta[half] = a;
            wide[half] = c;
        }
        if (lane >> 3 == eight >> 3) {
            m = lane & 4 ? theta[1] : theta[0];
            v = lane & 4 ? wide[1] : wide[0];
        }
    }
#else
    const real* from = partners + (word)cell.partner * (2 * WIDTH);
    for (int k = 0; k < WIDTH; k++) {
        real u = (real)row.mean[k], u_var = (real)row.var[k], p = from[k], p_var = from[WIDTH + k];
        m += u * p;
        v += (u * u + u_var) * p_var + u_var * p * p;
    }
#endif
    m += row.bias + cell.bias;
    v += row.bias_var + cell.bias_var;
}

KERNEL BOUNDED(CELL_THREADS, BLOCKS) sum_cells(const Pass* pass, word b, word at, word first_task, word n_tasks,
                                               CELL_PARAMETERS) {
    if (warp_of() >= n_tasks) return;
    const Held block = HELD_CELLS;
    const Task task = block.tasks[first_task + warp_of()];
    const word row = pass->rows[at + task.slot];
    const int lane = lane_of();
    const bits key = (bits)pass->key;
    double* out = block.sums + (word)task.out * SUMS;
    double total_w = 0, total_wt = 0, squares = 0, worth = 0, bias_spread = 0;
    bool fresh = true;
    int pending = 0, done = task.first;
    Sums added;
    added.clear();
#if !LEAST_SQUARES
    const Row own = load_row(pass, b, task.slot);
#endif
    Cells cells(block, row, task);
    Cell cell;
    const real* partners;
    while (cells.take(cell, partners)) {
        real w, wt;
#if LEAST_SQUARES
        const real t = cell.x - cell.bias;
        w = cell.times;
        wt = w * t;
        squares += (double)wt * t;
#else
        real m, v, times = cell.times * (cell.x == 0 ? block.zero_weight : (real)1);
        predict(own, partners, cell, m, v);
        w = wt = 0;
        if (times > 0) {
#if DRAWING
            Stream stream = begin_stream(key, done + lane, row, b + 1);
            const Weighed weighed = draw_weight(cell.x, m, times, block.parameters, stream);
            w = weighed.w;
            wt = weighed.wz;
#else
            const Weighed weighed = weigh(cell.x, m, v, block.parameters, block.valued);
            w = times * weighed.w;
            wt = times * weighed.wz;
            worth += times * weighed.value;
#endif
            wt -= w * cell.bias;
        }
#endif
        total_w += w;
        total_wt += wt;
        bias_spread += (double)w * cell.bias_var;
#if TENSOR
        added.add(partners, w, wt);
        pending += 32;
        if (pending >= FLUSH && done + 32 < task.last) {
            added.flush(out, fresh, cells.spare());
            fresh = false;
            pending = 0;
        }
#else
        added.add(partners, cell.partner, w, wt, out, done == task.first);
        fresh = PANELS == 1;
#endif
        done += 32;
    }
    added.flush(out, fresh, cells.spare());
    total_w = sum_of_lanes(total_w);
    total_wt = sum_of_lanes(total_wt);
    squares = sum_of_lanes(squares);
    worth = sum_of_lanes(worth);
    bias_spread = sum_of_lanes(bias_spread);
    if (lane == 0) {
        out[WEIGHT] = total_w;
        out[TARGETS] = total_wt;
        out[SQUARES] = squares;
        out[VALUE] = worth;
        out[BIAS_SPREAD] = bias_spread;
    }
}

// The value of the cells at the rows' parameters, by task; only of rows that are `busy`, if `some` is set.
KERNEL BOUNDED(CELL_THREADS, BLOCKS) measure_cells(const Pass* pass, word b, word at, word first_task, word n_tasks,
                                                   word some, CELL_PARAMETERS) {
    if (warp_of() >= n_tasks) return;
    const Held block = HELD_CELLS;
    const Task task = block.tasks[first_task + warp_of()];
    if (some && !pass->busy[task.slot]) return;
    Row own = load_row(pass, b, task.slot);
#if LEAST_SQUARES
    // ε² is in every cell as the variance of the row's bias is.
    own.bias_var += (real)pass->blocks[b].floor;
#endif
    double total = 0;
    Cells cells(block, pass->rows[at + task.slot], task);
    Cell cell;
    const real* partners;
    while (cells.take(cell, partners)) {
        real m, v;
        predict(own, partners, cell, m, v);
#if LEAST_SQUARES
        const double away = (double)cell.x - (double)m;
        total += (away * away + (double)v) * cell.times;
#else
        const real times = cell.times * (cell.x == 0 ? block.zero_weight : (real)1);
        if (times > 0) total += times * weigh(cell.x, m, v, block.parameters, true).value;
#endif
    }
    total = sum_of_lanes(total);
    if (lane_of() == 0) block.values[warp_of()] = total;
}
