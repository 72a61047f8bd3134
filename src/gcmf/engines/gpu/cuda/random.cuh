// Random numbers by counting, as engines/random_kernels.py has them: any is known from a key and a counter.

struct Pair {
    bits first, second;
};

// 128 random bits of a counter of four words of 32 bits: Philox 4×32 with ten rounds.
DEVICE Pair philox(bits key, bits c0, bits c1, bits c2, bits c3) {
    const bits low = 0xFFFFFFFFull;
    bits k0 = key & low, k1 = key >> 32;
    for (int n = 0; n < 10; n++) {
        bits left = 0xD2511F53ull * c0, right = 0xCD9E8D57ull * c2;
        c0 = (right >> 32) ^ c1 ^ k0;
        c1 = right & low;
        c2 = (left >> 32) ^ c3 ^ k1;
        c3 = left & low;
        k0 = (k0 + 0x9E3779B9ull) & low;
        k1 = (k1 + 0xBB67AE85ull) & low;
    }
    Pair pair = {c0 | (c1 << 32), c2 | (c3 << 32)};
    return pair;
}

// The upper 53 bits as a number between 0 and 1, neither of which it reaches.
DEVICE double unit(bits x) { return ((double)(x >> 11) + 0.5) * (1.0 / 9007199254740992.0); }

struct Stream {
    bits key, cell, row, block, drawn, left;
    bool is_left;
};

DEVICE Stream begin_stream(bits key, bits cell, bits row, bits block) {
    Stream stream = {key, cell & 0xFFFFFFFFull, row & 0xFFFFFFFFull, block & 0xFFFFFFFFull, 0, 0, false};
    return stream;
}

DEVICE double uniform(Stream& s) {
    if (s.is_left) {
        s.is_left = false;
        return unit(s.left);
    }
    Pair pair = philox(s.key, s.drawn & 0xFFFFFFFFull, s.cell, s.row, s.block);
    s.drawn += 1;
    s.left = pair.second;
    s.is_left = true;
    return unit(pair.first);
}

DEVICE double exponential(Stream& s) { return -log(uniform(s)); }

DEVICE double normal(Stream& s) {
    double length = sqrt(-2.0 * log(uniform(s)));
    return length * cos(6.283185307179586 * uniform(s));
}

// G ~ Gamma(shape, 1), by Marsaglia and Tsang (2000).
DEVICE double gamma_number(double shape, Stream& s) {
    double raised = shape >= 1.0 ? shape : shape + 1.0, d = raised - 1.0 / 3.0, c = 1.0 / sqrt(9.0 * d);
    double times = shape >= 1.0 ? 1.0 : exp(log(uniform(s)) / shape);
    while (true) {
        double z = normal(s), v = 1.0 + c * z;
        if (v > 0.0) {
            v = v * v * v;
            if (log(uniform(s)) < 0.5 * z * z + d - d * v + d * log(v)) return times * d * v;
        }
    }
}
