// What one warp is made of: its lanes, how they exchange numbers, and products of small matrices.
// 32 lanes work together on one row or on one piece of a row; warps do not know of each other.

typedef long long word;
typedef unsigned long long bits;

#define WHOLE_WARP 0xffffffffu

struct Task {  // one piece of a row
    int slot;   // of the row in its batch
    int first;  // cell, and the one after the last
    int last;
    int out;    // where its sums go
};

#ifndef EMULATED
#define DEVICE __device__ __forceinline__
#define KERNEL extern "C" __global__ void
#define BOUNDED(threads, blocks) __launch_bounds__(threads, blocks)

DEVICE int lane_of() { return threadIdx.x & 31; }
// The same, and whatever is computed from it is computed there and then.
DEVICE int lane_of_now() {
    int lane;
    asm volatile("mov.u32 %0, %laneid;" : "=r"(lane));
    return lane;
}
DEVICE word warp_of() { return ((word)blockIdx.x * blockDim.x + threadIdx.x) >> 5; }
DEVICE void meet() { __syncwarp(); }
template <typename T> DEVICE T from_lane(T x, int lane) { return __shfl_sync(WHOLE_WARP, x, lane); }
template <typename T> DEVICE T across(T x, int mask) { return __shfl_xor_sync(WHOLE_WARP, x, mask); }

extern __shared__ double shared_room[];

// c += a b with operands of 11 bits: a (16, 8), b (8, 8), c (16, 8), each lane with its share of them.
DEVICE void multiply(float c[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}
// Copies of 16 bytes to fast memory that go on by themselves: begun, told apart by commits, and waited for but the last.
DEVICE void begin_copy(float* to, const float* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
}
DEVICE void commit_copies() { asm volatile("cp.async.commit_group;"); }
DEVICE void await_copies() { asm volatile("cp.async.wait_group 1;" ::: "memory"); }
// A load of what no kernel writes while this one runs.
template <typename T> DEVICE T fixed(const T* from) { return __ldg(from); }
DEVICE unsigned bits_of(float x) { return __float_as_uint(x); }
DEVICE float float_of(unsigned x) { return __uint_as_float(x); }
DEVICE double number_of(word x) { return __longlong_as_double(x); }
DEVICE void count(int* counter) { atomicAdd(counter, 1); }
#endif

// The sum over all lanes, in a fixed order; every lane has it.
template <typename T> DEVICE T sum_of_lanes(T x) {
    for (int mask = 16; mask > 0; mask >>= 1) x += across(x, mask);
    return x;
}

template <typename T> DEVICE T largest(T a, T b) { return a > b ? a : b; }
template <typename T> DEVICE T smallest(T a, T b) { return a < b ? a : b; }
